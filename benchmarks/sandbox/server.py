# SPDX-License-Identifier: Apache-2.0
"""The real server on the embedded runtime, with an image made from the archive."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opensandbox.config import ConnectionConfig, ConnectionConfigSync

API_KEY = "key of the benchmark"
STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """A running server."""

    domain: str
    data_dir: Path

    def lateness(self) -> list[tuple[float, float]]:
        """Every time its event loop was late until now: see `watched.py`."""
        lines = _late_file(self.data_dir).read_text().splitlines()
        return [(float(late), float(starved)) for late, starved in map(str.split, lines)]

    @property
    def config(self) -> ConnectionConfig:
        """What the asynchronous client needs."""
        return ConnectionConfig(domain=self.domain, api_key=API_KEY)

    @property
    def sync_config(self) -> ConnectionConfigSync:
        """What the synchronous client needs."""
        return ConnectionConfigSync(domain=self.domain, api_key=API_KEY)


def import_image(data_dir: Path, archive: Path, name: str) -> None:
    """Take the archive into the image store."""
    words = ["images", "import", str(archive), "--name", name, "--data-dir", str(data_dir)]
    command = [sys.executable, "-m", "opensandbox_server", *words]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


@contextlib.contextmanager
def running_server(data_dir: Path, programs: Path) -> Iterator[Server]:
    """Run a server until the block ends; sandboxes that are left end with it."""
    flags = ["--runtime=oci", "--port=0", f"--data-dir={data_dir}", "--stop-sandboxes"]
    watched = [sys.executable, "-m", "benchmarks.sandbox.watched", str(_late_file(data_dir))]
    running = subprocess.Popen(
        [*watched, *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "OPENSANDBOX_SERVER_API_KEY": API_KEY,
            "OPENSANDBOX_BIN_DIR": str(programs),
        },
    )
    assert running.stdout is not None
    try:
        yield Server(_address(running), data_dir)
    finally:
        running.terminate()
        # Read to the end: a full pipe would keep the server from ending.
        log, _ = running.communicate(timeout=STOP_SECONDS)
        if running.returncode:
            print(log, file=sys.stderr)


def _late_file(data_dir: Path) -> Path:
    return data_dir.with_name(f"{data_dir.name}.late")


def _address(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    said = []
    for line in running.stdout:
        said.append(line)
        if address := line.partition("listening on http://")[2]:
            return address.split(" ")[0]
    raise RuntimeError(f"the server does not listen:\n{''.join(said)}")
