# SPDX-License-Identifier: Apache-2.0
"""The wheels are whole: built from this tree, installed elsewhere, and used from there."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox"
UV = str(CACHE / "tools" / "bin" / "uv")
KEY = "key of the wheels"

USE = """
import sys
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync

config = ConnectionConfigSync(api_key=sys.argv[2], domain=sys.argv[1])
sandbox = SandboxSync.create("host", connection_config=config)
try:
    sandbox.files.write_file("/tmp/from-the-wheel", "kept")
    print(sandbox.commands.run("cat /tmp/from-the-wheel; echo; id -u").text)
finally:
    sandbox.destroy()
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment outside the clone, with nothing but our wheels and what they need."""
    home = tmp_path_factory.mktemp("wheels")
    for package in ("cli", "sdks/python", "server"):
        build = [UV, "build", "--quiet", "--wheel", "--out-dir", str(home / "dist")]
        # From PATH, which has setup's Go when the machine has none.
        path = f"{CACHE / 'tools' / 'bin'}:{os.environ['PATH']}"
        subprocess.run([*build, str(ROOT / package)], check=True, env=os.environ | {"PATH": path})
    subprocess.run(
        [UV, "venv", "--quiet", "--python", sys.executable, str(home / "env")], check=True
    )
    wheels = sorted(str(wheel) for wheel in (home / "dist").glob("*.whl"))
    python = str(home / "env" / "bin" / "python")
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, *wheels], check=True)
    return home / "env"


@pytest.fixture
def server(environment: Path, tmp_path: Path) -> Iterator[str]:
    """The installed server, started away from the clone; gives its address."""
    runtime = (
        "oci" if os.geteuid() == 0 and (shutil.which("crun") or shutil.which("runc")) else "fake"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        domain = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [str(environment / "bin" / "opensandbox-server"), "serve", "--stop-sandboxes"]
    command += ["--runtime", runtime, "--port", domain.split(":")[1]]
    command += ["--data-dir", str(tmp_path / "data")]
    clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(tmp_path)}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=clean | {"OPENSANDBOX_SERVER_API_KEY": KEY}
    )
    try:
        wait_for(f"http://{domain}/health", process)
        yield domain
    finally:
        process.terminate()
        assert process.wait(30) == 0


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended"
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the server does not answer")


def test_the_server_wheel_carries_its_programs(environment: Path) -> None:
    (programs,) = environment.glob("lib/python*/site-packages/opensandbox_server/bin")
    names = {program.name for program in programs.iterdir()}
    assert {"execd-linux-amd64", "execd-linux-arm64"} <= names
    assert any(name.startswith("ingress") for name in names)


def test_a_sandbox_runs_from_what_the_wheels_installed(
    environment: Path, server: str, tmp_path: Path
) -> None:
    used = subprocess.run(
        [str(environment / "bin" / "python"), "-c", USE, server, KEY],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert used.stdout.startswith("kept\n")
