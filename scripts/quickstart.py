# SPDX-License-Identifier: Apache-2.0
"""The main job in a minute: a server on the embedded runtime, a sandbox, commands, files and code.

Prints what it does and how long each step took, and leaves nothing behind.
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import httpx

from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import SandboxException

T = TypeVar("T")

START_LIMIT = 600.0
"""How long the server may take to answer, in seconds; the first start makes the Python pack, which
takes minutes on a slow machine."""
CODE = """
import sys, IPython
print(sum(n * n for n in range(1000)))
print(sys.executable, sys.version.split()[0], "with IPython", IPython.__version__)
"""


def main() -> None:
    """Walk through what a sandbox is for."""
    become_root()
    key = secrets.token_urlsafe(24)
    with server(key) as domain:
        config = ConnectionConfigSync(api_key=key, domain=domain)
        sandbox = step(
            "create a sandbox",
            lambda: SandboxSync.create(
                "host", timeout=timedelta(minutes=5), connection_config=config
            ),
            lambda made: made.id,
        )
        try:
            show(sandbox)
        finally:
            step("end it", sandbox.destroy)
    print("\nNothing is left behind. Next: `make serve`, and docs/server.md.")


def show(sandbox: SandboxSync) -> None:
    """Run commands, files and code in one sandbox."""

    def run(command: str | list[str]) -> str:
        execution = sandbox.commands.run(command)
        if execution.exit_code:
            said = "; ".join(message.text for message in execution.logs.stderr)
            sys.exit(f"\n{command} failed with status {execution.exit_code}: {said}")
        return execution.text

    step("run a command", lambda: run("echo hello from $(hostname)"))
    step("who it is", lambda: run("id -un; ls / | tr '\\n' ' '"))
    step("write a file", lambda: sandbox.files.write_file("/workspace/note.txt", "kept\n"))
    step("read it back", lambda: sandbox.files.read_file("/workspace/note.txt").strip())
    step("run Python", lambda: run(["python3", "-c", CODE]))
    session = step("open a shell", sandbox.commands.create_session)
    sandbox.commands.run_in_session(session, "cd /workspace; x=42")
    step("its state stays", lambda: sandbox.commands.run_in_session(session, "echo $x $PWD").text)
    seen = (
        "ls /home /root /var/log 2>/dev/null | head -3; test -e /etc/shadow || echo no host files"
    )
    step("what it cannot see", lambda: run(seen))


def step(name: str, do: Callable[[], T], tell: Callable[[T], str] = str) -> T:
    """Do one thing and print its name, its time and its result."""
    began = time.perf_counter()
    result = do()
    took = (time.perf_counter() - began) * 1000
    told = "" if result is None else tell(result).strip().replace("\n", " | ")
    print(f"  {name:<20} {took:8.1f} ms   {told}", flush=True)
    return result


@contextlib.contextmanager
def server(key: str) -> Iterator[str]:
    """Run a server of our own, on a free port and in a temporary directory; gives its address."""
    data = Path(tempfile.mkdtemp(prefix="opensandbox-quickstart-"))
    domain = f"127.0.0.1:{free_port()}"
    log = data / "server.log"
    began = time.perf_counter()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "opensandbox_server", "serve", "--stop-sandboxes"),
                *("--runtime", "oci", "--port", domain.split(":")[1], "--data-dir", str(data)),
            ],
            env={**os.environ, "OPENSANDBOX_SERVER_API_KEY": key},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(f"http://{domain}/health", process, log)
        print(
            f"  {'start the server':<20} {(time.perf_counter() - began) * 1000:8.1f} ms   {domain}"
        )
        yield domain
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(data, ignore_errors=True)


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return when the server answers; end with what it said when it does not."""
    deadline = time.monotonic() + START_LIMIT
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url).is_success:
                return
        time.sleep(0.05)
    sys.exit(
        f"{log.read_text()}\nThe server did not start. Try: .venv/bin/opensandbox-server doctor"
    )


def free_port() -> int:
    """Find a TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def become_root() -> None:
    """Namespaces, overlays and links need root: start over with sudo when we are not."""
    if os.geteuid() == 0:
        return
    if not shutil.which("sudo"):
        sys.exit("The embedded runtime needs root: run `make quickstart` as root.")
    print("The embedded runtime needs root: going on with sudo.")
    os.execvp("sudo", ["sudo", "-E", sys.executable, *sys.argv])


if __name__ == "__main__":
    try:
        main()
    except SandboxException as fault:
        sys.exit(f"\n{fault}\nWhat this host lacks: sudo .venv/bin/opensandbox-server doctor")
