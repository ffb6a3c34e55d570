# SPDX-License-Identifier: Apache-2.0
"""Where a command's output goes: untouched into files and pipes, plain onto a terminal."""

from __future__ import annotations

import asyncio
import os
import select
import sys

from opensandbox_cli.plain_text import PlainBytes

# A pipe that takes anything takes this much at once, so a write of it does not block the loop.
CHUNK = select.PIPE_BUF


class OutputStream:
    """A descriptor that bytes of a sandbox are written to, without blocking the event loop."""

    def __init__(self, descriptor: int) -> None:
        """Look where the descriptor leads."""
        self._descriptor = descriptor
        self._plain = PlainBytes() if os.isatty(descriptor) else None
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    async def write(self, data: bytes) -> None:
        """Write all of it; BrokenPipeError when nobody reads any more."""
        await self._write(self._plain.feed(data) if self._plain else data)

    async def close(self) -> None:
        """Write what was held back."""
        if self._plain:
            await self._write(self._plain.feed(b"", is_last=True))

    async def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            if not self._poll.poll(0):
                await self._wait()
            left = left[os.write(self._descriptor, left[:CHUNK]) :]

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._descriptor, _finish, ready)
        try:
            await ready
        finally:
            loop.remove_writer(self._descriptor)


class InputStream:
    """Standard input, read without blocking the event loop."""

    def __init__(self, descriptor: int) -> None:
        """Read this descriptor."""
        self._descriptor = descriptor

    async def read(self, size: int = 64 << 10) -> bytes:
        """Return what there is; nothing at the end."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _finish, ready)
        except PermissionError:
            return os.read(self._descriptor, size)  # a file: it is always ready
        try:
            await ready
        finally:
            loop.remove_reader(self._descriptor)
        return os.read(self._descriptor, size)


def _finish(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def has_piped_input() -> bool:
    """Whether standard input is there and is not a person."""
    try:
        return not os.isatty(sys.__stdin__.fileno()) if sys.__stdin__ else False
    except (OSError, ValueError):
        return False
