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

LONGEST_SLEEP_SECONDS = 3600.0
"""The wall clock may be set while we sleep: look at it at least this often."""


class Expiry:
    """Calls `end` for each id when its time has come; again later when that fails.

    Times are Unix seconds. The newest time given for an id counts; older entries of the queue are
    skipped when they surface, and the queue is rebuilt when they outnumber the others.
    """

    def __init__(
        self,
        end: Callable[[str], Awaitable[None]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take what ends a sandbox, and the clock."""
        self._end = end
        self._clock = clock
        self._due: dict[str, float] = {}
        self._queue: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """Return how many ids have an end."""
        return len(self._due)

    def set(self, sandbox_id: str, at: float | None) -> None:
        """End the sandbox then; None never does."""
        if at is None:
            self.cancel(sandbox_id)
            return
        self._due[sandbox_id] = at
        heapq.heappush(self._queue, (at, next(self._order), sandbox_id))
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
        pause = LONGEST_SLEEP_SECONDS
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
            self.set(sandbox_id, self._clock() + RETRY_SECONDS)
        except asyncio.CancelledError:
            self.set(sandbox_id, self._clock())  # whoever runs this again ends it
            raise
