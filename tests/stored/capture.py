# SPDX-License-Identifier: Apache-2.0
"""Writes down what this version stores, for the tests of every later one.

`python -m tests.stored.capture v0.1.0`, as root, on the commit of that release: a real server makes
sandboxes and an image, is killed, and what is then on disk becomes `tests/stored/v0.1.0`; a journal
of execd goes to its own package. Databases are written as text, and the data directory is called
DATA_DIR in all of it.
"""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import uuid
from datetime import timedelta
from pathlib import Path

from opensandbox import SandboxSync
from tests.harness.execd import run_daemon
from tests.harness.server import PROGRAMS, Server, make_home, start_server
from tests.stored.release import DATA_DIR, RELEASES, STORE

KEPT = ("sandboxes/*/state.json", "images/**/small/image.json", "images/**/small/rootfs/*")
"""Of the data directory: what a later version must understand."""
WHOLE = ("id", "network.json")
"""Small files that are kept when this version has them."""
OUTPUT = "kept output"
JOURNALS = RELEASES.parents[1] / "dataplane" / "journal" / "testdata"
"""Beside what reads them."""


def main() -> int:
    """Capture what the command line names."""
    if len(sys.argv) != 2:
        print("usage: python -m tests.stored.capture v0.1.0", file=sys.stderr)
        return 2
    target = RELEASES / sys.argv[1]
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    with make_home() as home:
        _import_image(home)
        server = start_server("oci", home)
        try:
            expected = _use(server)
            server.kill()
            _write(target, home / "data", expected)
        finally:
            server.sweep()
    _capture_journal(target)
    print(f"wrote {target.relative_to(Path.cwd())}")
    return 0


def _import_image(home: Path) -> None:
    archive = home / "small.tar"
    with tarfile.open(archive, "w") as tar:
        member = tarfile.TarInfo("hello")
        member.size, member.mode = 6, 0o4755
        tar.addfile(member, io.BytesIO(b"hello\n"))
    words = ["images", "import", str(archive), "--name", "small", "--data-dir", str(home / "data")]
    subprocess.run([sys.executable, "-m", "opensandbox_server", *words], check=True)


def _use(server: Server) -> dict[str, dict[str, object]]:
    """Make one sandbox of each kind and say what a later server must tell of them."""
    config = server.sync_config
    described: dict[str, dict[str, object]] = {}
    runs = SandboxSync.create(
        "host",
        timeout=timedelta(days=36500),
        env={"GREETING": "grüß dich"},
        metadata={"purpose": "stored"},
        resource={"cpu": "0.5", "memory": "256Mi"},
        connection_config=config,
    )
    paused = SandboxSync.create("host", timeout=None, connection_config=config)
    paused.pause()
    ended = SandboxSync.create(
        "host", entrypoint=["sh", "-c", "exit 3"], timeout=None, connection_config=config
    )
    for sandbox, kind in ((runs, "runs"), (paused, "paused"), (ended, "ended")):
        info = sandbox.get_info()
        described[sandbox.id] = {
            "was": kind,
            "image": info.image.image if info.image else None,
            "entrypoint": list(info.entrypoint),
            "metadata": dict(info.metadata or {}),
            "expires_at": info.expires_at.isoformat() if info.expires_at else None,
        }
        sandbox.close()
    return described


def _write(target: Path, data: Path, expected: object) -> None:
    for pattern in KEPT:
        for file in data.glob(pattern):
            _keep(file, target / "data" / file.relative_to(data), data)
    for name in WHOLE:
        if (data / name).exists():
            _keep(data / name, target / "data" / name, data)
    with sqlite3.connect(data / STORE) as db:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        lines = [*db.iterdump(), f"PRAGMA user_version = {version};"]
    db.close()
    (target / "store.sql").write_text("\n".join(lines).replace(str(data), DATA_DIR) + "\n")
    (target / "expected.json").write_text(json.dumps(expected, indent=2, sort_keys=True) + "\n")


def _keep(file: Path, place: Path, data: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(file.read_text().replace(str(data), DATA_DIR))


def _capture_journal(target: Path) -> None:
    """Take the journal of one command from a real execd."""
    state = target / f"state-{uuid.uuid4().hex}"
    state.mkdir()
    try:
        with run_daemon("root", ["-state-dir", str(state)]) as daemon:
            body = {"command": f"echo {OUTPUT}"}
            daemon.client.post("/command", json=body).raise_for_status()
            (journal,) = (file for file in state.rglob("*") if file.is_file())
            shutil.copyfile(journal, JOURNALS / f"{target.name}.journal")
    finally:
        shutil.rmtree(state)


if __name__ == "__main__":
    assert PROGRAMS.is_dir(), "run: make build"
    sys.exit(main())
