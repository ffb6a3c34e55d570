# SPDX-License-Identifier: Apache-2.0
"""Runs a real Redis on a unix socket, for one test."""

import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.harness.wait import eventually

STOP_SECONDS = 20.0  # bounds an end


def redis_program() -> str | None:
    """Return the server's program. The package redis-tools has it under another name."""
    return shutil.which("redis-server") or shutil.which("redis-check-rdb")


@dataclass
class RedisServer:
    """A server that listens on ``socket`` only."""

    socket: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End the server; what it knew is gone."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)
        shutil.rmtree(self.socket.parent, ignore_errors=True)  # may be stopped twice


def start_redis() -> RedisServer:
    """Start a server that keeps nothing on disk, and return when it listens."""
    home = Path(tempfile.mkdtemp(prefix="osb-redis-"))  # names of sockets have a limit
    program = redis_program()
    assert program is not None
    path = home / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(home)]
    process = subprocess.Popen(
        ["redis-server", *options], executable=program, stdout=subprocess.DEVNULL
    )
    eventually(lambda: _listens(path) or process.poll() is not None)
    assert process.poll() is None, "redis ended at once"
    return RedisServer(path, process)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
