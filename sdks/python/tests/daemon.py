# SPDX-License-Identifier: Apache-2.0
"""Runs the real execd. Its socket listens before it runs, so that nobody waits for it."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BINARY = Path(os.environ.get("EXECD_BINARY", Path(__file__).parents[3] / "build" / "execd"))
TOKEN_HEADER = "X-EXECD-ACCESS-TOKEN"  # noqa: S105 - a header's name
STOP_GRACE_SECONDS = 10.0  # bounds an orderly stop; a daemon that needs longer is killed


@dataclass(frozen=True)
class Execd:
    """A running daemon."""

    address: str
    """host:port"""
    token: str
    home: Path
    """A directory of its own; tests write nowhere else."""


@contextmanager
def run_execd(directory: Path, token: str) -> Iterator[Execd]:
    """Run execd until the block ends."""
    if not BINARY.exists():
        raise FileNotFoundError(f"{BINARY} is missing; run: make build")
    home, state, token_file = directory / "home", directory / "state", directory / "token"
    home.mkdir()
    state.mkdir()
    token_file.write_text(token)
    token_file.chmod(0o600)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "EXECD_ENVS": str(directory / "envs"),
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        arguments = ["--access-token-file", str(token_file), "--state-dir", str(state)]
        process = _start(listener, arguments, environment)
    try:
        yield Execd(f"127.0.0.1:{port}", token, home)
    finally:
        process.terminate()
        try:
            process.wait(STOP_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(
    listener: socket.socket, arguments: list[str], environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    descriptor = listener.fileno()
    return subprocess.Popen(
        [BINARY, "--listen", f"fd://{descriptor}", *arguments],
        env=environment,
        cwd=environment["HOME"],
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
    )
