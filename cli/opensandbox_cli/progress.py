# SPDX-License-Identifier: Apache-2.0
"""Says on a terminal's stderr what takes long. Pipes and files never see any of it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import time
from collections.abc import AsyncIterator

QUIET_SECONDS = 1.0  # that need no explanation
INTERVAL = 0.1
FRAMES = "|/-\\"
CLEAR = "\r\x1b[K"
BAR = 24


@contextlib.asynccontextmanager
async def doing(what: str) -> AsyncIterator[None]:
    """Show ``what`` once it takes over a second, until the block ends."""
    if not sys.stderr.isatty():
        yield
        return
    spinner = asyncio.create_task(_spin(what), name="spinner")
    try:
        yield
    finally:
        spinner.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await spinner


async def _spin(what: str) -> None:
    started = time.monotonic()
    await asyncio.sleep(QUIET_SECONDS)
    try:
        for turn in range(1 << 30):
            seconds = int(time.monotonic() - started)
            _draw(f"{FRAMES[turn % len(FRAMES)]} {what} ({seconds} s)")
            await asyncio.sleep(INTERVAL)
    finally:
        sys.stderr.write(CLEAR)
        sys.stderr.flush()


class ProgressBar:
    """Shows how much of a file or directory has been moved; given to the client as ``progress``."""

    def __init__(self, name: str) -> None:
        """Name what is moved."""
        self._name = name
        self._started = time.monotonic()
        self._drawn = 0.0
        self._last: tuple[int, int | None] | None = None
        self._is_shown = sys.stderr.isatty()

    def __call__(self, done: int, total: int | None) -> None:
        """Take note of a step; the client calls this."""
        self._last = (done, total)
        now = time.monotonic()
        if self._is_shown and now - self._drawn >= INTERVAL:
            self._drawn = now
            _draw(self._line(done, total))

    def finish(self) -> None:
        """Leave the last line standing."""
        if self._is_shown and self._last:
            _draw(self._line(*self._last))
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _line(self, done: int, total: int | None) -> str:
        speed = done / max(time.monotonic() - self._started, 0.001)
        moved = f"{size(done)} of {size(total)}" if total else size(done)
        if total:
            filled = min(BAR, BAR * done // total)
            bar = f"[{'#' * filled}{' ' * (BAR - filled)}] {min(100, 100 * done // total):3d}% "
        else:
            bar = ""
        return f"{self._name} {bar}{moved}, {size(round(speed))}/s"


def size(count: int) -> str:
    """Return a count of bytes in the unit people would choose."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def _draw(line: str) -> None:
    width = shutil.get_terminal_size().columns - 1
    sys.stderr.write(CLEAR + line[:width])
    sys.stderr.flush()
