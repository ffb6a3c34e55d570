# SPDX-License-Identifier: Apache-2.0
"""Runs osb on a real pseudo-terminal, types, and reads what appears there."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from cli.tests.program import Osb

WAIT_SECONDS = 20.0  # bounds every wait; none needs nearly as long

# The terminal becomes the one that Ctrl-C and a change of size come from.
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Screen:
    """A terminal with osb on it. As a context manager it leaves no process."""

    def __init__(self, osb: Osb, *words: str, rows: int = 24, columns: int = 100) -> None:
        """Start it."""
        self._ours, self._theirs = pty.openpty()
        self.text = ""
        self.resize(rows, columns)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *osb.command, *words],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=osb.environment,
            cwd=osb.home,
            start_new_session=True,
        )

    def press(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, text: str, *, after: int = 0) -> int:
        """Wait until ``text`` appears, from a position on; returns the position behind it."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := self.text.find(text, after)) < 0:
            assert self._read(deadline), f"no {text!r} on the screen:\n{self.text!r}"
        return found + len(text)

    def wait(self) -> int:
        """Wait until osb ends; returns its exit code."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end:\n{self.text!r}"
            self._read(time.monotonic() + 0.05)
        while self._read(time.monotonic() + 0.05):
            pass
        return self.process.returncode

    def attributes(self) -> list[Any]:
        """Return how the terminal is set: what must be the same before and after."""
        return termios.tcgetattr(self._theirs)

    def _read(self, deadline: float) -> bool:
        remaining = max(0.0, deadline - time.monotonic())
        if not select.select([self._ours], [], [], remaining)[0]:
            return False
        self.text += os.read(self._ours, 65536).decode(errors="replace")
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_SECONDS)
        os.close(self._ours)
        os.close(self._theirs)


@contextmanager
def started(osb: Osb, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start osb with pipes and kill it after the block if it still runs."""
    process = subprocess.Popen(
        [*osb.command, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=osb.environment,
        cwd=osb.home,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=WAIT_SECONDS)
