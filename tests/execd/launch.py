# SPDX-License-Identifier: Apache-2.0
"""Starts the daemon's program with exactly the given arguments, for tests about starting."""

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.harness.execd import BINARY

TIMEOUT_SECONDS = 20.0  # bounds waiting for an end that must come


@contextmanager
def running(
    home: Path, *arguments: str, pass_fds: Sequence[int] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the daemon with its state in home; end it with SIGTERM unless it has ended."""
    with (home / "execd.log").open("wb") as log:
        process = subprocess.Popen(
            [str(BINARY), f"--state-dir={home / 'state'}", *arguments],
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_SECONDS)


def outcome(
    home: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the daemon to its own end."""
    return subprocess.run(
        [str(BINARY), f"--state-dir={home / 'state'}", *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def is_listening(path: Path) -> bool:
    """Say whether somebody accepts at a unix socket, whose file is there a little earlier."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
