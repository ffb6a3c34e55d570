# SPDX-License-Identifier: Apache-2.0
"""Ends of life: one ordered queue and one task, however many sandboxes there are."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
import time
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
"""How long after a failed end it is tried again."""

LOOK_SECONDS = 30.0
"""A machine that sleeps does not wake us: look at the clock at least this often."""


def since_boot() -> float:
    """Return seconds on a clock that nobody sets and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Expiry:
    """Calls `end` for each id when its time has come; again later when that fails.

    A time is given in Unix seconds, and means as long from now as the clock on the wall says now:
    who sets that clock later ends nothing early or late. The newest time given for an id counts;
    older entries of the queue are skipped when they surface, and the queue is rebuilt when they
    outnumber the others.
    """

    def __init__(
        self,
        end: Callable[[str], Awaitable[None]],
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = since_boot,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """Take what ends a sandbox, the clock on the wall and the one that is gone by."""
        self._end = end
        self._wall = wall
        self._clock = clock
        self._look_seconds = look_seconds
        self._due: dict[str, float] = {}
        self._queue: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._changed = asyncio.Event()

    def __contains__(self, sandbox_id: str) -> bool:
        """Return whether an id has an end to come."""
        return sandbox_id in self._due

    def __len__(self) -> int:
        """Return how many ids have an end."""
        return len(self._due)

    def set(self, sandbox_id: str, at: float | None) -> None:
        """End the sandbox then; None never does."""
        if at is None:
            self.cancel(sandbox_id)
            return
        self._set_in(sandbox_id, at - self._wall())

    def _set_in(self, sandbox_id: str, seconds: float) -> None:
        due = self._due[sandbox_id] = self._clock() + seconds
        heapq.heappush(self._queue, (due, next(self._order), sandbox_id))
        if len(self._queue) > 2 * len(self._due) + 64:
            self._queue = [(due, next(self._order), each) for each, due in self._due.items()]
            heapq.heapify(self._queue)
        self._changed.set()

    def cancel(self, sandbox_id: str) -> None:
        """Forget the id."""
        self._due.pop(sandbox_id, None)

    async def run(self) -> None:
        """End what is due until cancelled. Ends run beside each other: a slow one delays none."""
        async with asyncio.TaskGroup() as ends:
            while True:
                for sandbox_id in self._take_due():
                    ends.create_task(self._try_to_end(sandbox_id), name=f"expire {sandbox_id}")
                await self._sleep()

    def _take_due(self) -> list[str]:
        now, due = self._clock(), []
        while self._queue and (self._queue[0][0] <= now or not self._is_current(self._queue[0])):
            entry = heapq.heappop(self._queue)
            if self._is_current(entry):
                del self._due[entry[2]]
                due.append(entry[2])
        return due

    def _is_current(self, entry: tuple[float, int, str]) -> bool:
        return self._due.get(entry[2]) == entry[0]

    async def _sleep(self) -> None:
        self._changed.clear()
        pause = self._look_seconds
        if self._queue:
            pause = min(pause, max(0.0, self._queue[0][0] - self._clock()))
        # Not wait_for: before Python 3.12 it may swallow a cancellation.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._changed.wait()

    async def _try_to_end(self, sandbox_id: str) -> None:
        try:
            await self._end(sandbox_id)
        except Exception:
            log.exception("sandbox %s could not be ended at its time", sandbox_id)
            self._set_in(sandbox_id, RETRY_SECONDS)
        except asyncio.CancelledError:
            self._set_in(sandbox_id, 0.0)  # whoever runs this again ends it
            raise
