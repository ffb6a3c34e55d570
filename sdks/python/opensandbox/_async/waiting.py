# SPDX-License-Identifier: Apache-2.0
"""How this side waits. The only file that is written for each side."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from opensandbox._archive import Pulled

T = TypeVar("T")

GIVING_UP = (asyncio.CancelledError, KeyboardInterrupt)
"""What is raised in a caller that wants no more of what it waits for."""


async def sleep(seconds: float) -> None:
    """Wait, and let others work."""
    await asyncio.sleep(seconds)


async def run_blocking(function: Callable[[], T]) -> T:
    """Do what may block, a read from a disk, without holding up the event loop."""
    return await asyncio.to_thread(function)


async def run_reading(chunks: AsyncIterator[bytes], consume: Callable[[Pulled], T]) -> T:
    """Let a function that blocks read chunks as a stream; they are fetched as it reads.

    It has returned when this returns, also when the caller gives up.
    """
    loop = asyncio.get_running_loop()
    fetching: Future[bytes] | None = None
    is_given_up = False

    async def fetch_next() -> bytes:
        return await anext(chunks, b"")

    def fetch() -> bytes:
        nonlocal fetching
        if is_given_up:
            raise CancelledError
        fetching = asyncio.run_coroutine_threadsafe(fetch_next(), loop)
        return fetching.result()

    consuming = asyncio.ensure_future(asyncio.to_thread(consume, Pulled(fetch)))
    try:
        return await asyncio.shield(consuming)
    except asyncio.CancelledError:
        is_given_up = True
        if fetching is not None:
            fetching.cancel()
        await asyncio.wait([consuming])
        raise


class BackgroundTasks:
    """What is done on the side. Its owner finishes it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin a task and return at once."""
        task = asyncio.create_task(function(), name="opensandbox background task")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Give up on what is under way; nothing is when this returns."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
