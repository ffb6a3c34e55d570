# SPDX-License-Identifier: Apache-2.0
"""Disk space held in reserve: without any, not even the sandbox that took it all could be ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

BALLAST_BYTES = 16 * 1024 * 1024
LOAN_BYTES = 1024 * 1024
"""What one transaction of the store is lent; it needs much less."""


class Ballast:
    """A file that is nothing but its size. One thread uses it at a time."""

    def __init__(self, path: Path) -> None:
        """Say where; nothing is made yet."""
        self._path = path

    def fill_up(self) -> None:
        """Make it whole where that leaves others as much room again; else leave it as it is."""
        missing = BALLAST_BYTES - self._size()
        disk = os.statvfs(self._path.parent)
        if missing > 0 and disk.f_bavail * disk.f_frsize > missing + BALLAST_BYTES:
            self._grow(BALLAST_BYTES)

    def make_room(self) -> None:
        """Give it all up when the disk has less room than that."""
        disk = os.statvfs(self._path.parent)
        if self._size() and disk.f_bavail * disk.f_frsize < BALLAST_BYTES:
            os.truncate(self._path, 0)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Give up a part of it, and take back at the end what was not used."""
        before = self._size()
        if before:
            os.truncate(self._path, max(0, before - LOAN_BYTES))
        try:
            yield
        finally:
            self._grow(before)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def _grow(self, size: int) -> None:
        """Take as much as there is, up to size, in steps: all or nothing would leave nothing."""
        step = os.sysconf("SC_PAGE_SIZE") * 16
        opened = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with contextlib.suppress(OSError):  # no more room
                for start in range(os.fstat(opened).st_size, size, step):
                    os.posix_fallocate(opened, start, min(step, size - start))
        finally:
            os.close(opened)
