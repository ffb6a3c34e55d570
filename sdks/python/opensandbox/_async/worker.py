# SPDX-License-Identifier: Apache-2.0
"""How this side works on several things at once: tasks. The other side has threads."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class AutoResetEvent:
    """Wakes the one that waits for it; set while nobody waits, it wakes the next."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the waiter."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait until it is set, but not longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()


class Workers:
    """Jobs that run beside their starter. Whoever has them can wait for all of them."""

    def __init__(self, name: str) -> None:
        """Begin with no job; the name is that of the tasks."""
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, job: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        """Run a job; what goes wrong in it is its own affair."""

        async def run() -> T:
            return await job()

        task = asyncio.create_task(run(), name=self._name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait(self, seconds: float) -> bool:
        """Wait until no job is left, those included that jobs start; False when time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        return not self._tasks


async def run_all(jobs: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Do several jobs at once and return when all are done."""
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(_awaited(job))


async def _awaited(job: Callable[[], Awaitable[None]]) -> None:
    await job()


async def unbroken(
    workers: Workers, job: Callable[[], Awaitable[T]], undo: Callable[[T], Awaitable[None]]
) -> T:
    """Do a job to its end although the caller may be cancelled; then what it made is undone."""
    is_abandoned = False

    async def run() -> T:
        made = await job()
        if is_abandoned:
            await undo(made)
        return made

    task = workers.start(run)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        is_abandoned = True
        if task.done() and not task.cancelled() and task.exception() is None:
            workers.start(lambda: undo(task.result()))  # made, but nobody took it
        raise
