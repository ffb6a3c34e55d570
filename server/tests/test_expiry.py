# SPDX-License-Identifier: Apache-2.0
"""The queue of ends: right order, newest time counts, nothing is given up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from opensandbox_server.sandboxes.expiry import RETRY_SECONDS, Expiry

pytestmark = pytest.mark.anyio


class Clock:
    """A clock the test turns."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Ends:
    """Remembers who was ended; fails for those it is told to."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failing: set[str] = set()
        self.happened = asyncio.Event()

    async def __call__(self, sandbox_id: str) -> None:
        self.done.append(sandbox_id)
        self.happened.set()
        if sandbox_id in self.failing:
            raise OSError("not today")

    async def until(self, *ids: str) -> None:
        while self.done != list(ids):
            self.happened.clear()
            await self.happened.wait()


@contextlib.asynccontextmanager
async def running(expiry: Expiry) -> AsyncIterator[None]:
    task = asyncio.create_task(expiry.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_is_due_ends_in_order() -> None:
    ends, clock = Ends(), Clock()
    expiry = Expiry(ends, clock, clock)
    expiry.set("second", 999.0)
    expiry.set("first", 998.0)
    expiry.set("never", None)
    expiry.set("later", 2000.0)
    async with running(expiry):
        await ends.until("first", "second")
        assert len(expiry) == 1


async def test_a_renewed_one_ends_at_its_new_time_only() -> None:
    ends, clock = Ends(), Clock()
    expiry = Expiry(ends, clock, clock)
    expiry.set("renewed", 999.0)
    expiry.set("renewed", 3000.0)
    expiry.set("other", 999.0)
    async with running(expiry):
        await ends.until("other")
        clock.now = 3001.0
        expiry.set("wakes the task", 5000.0)
        await ends.until("other", "renewed")


async def test_a_cancelled_one_does_not_end() -> None:
    ends, clock = Ends(), Clock()
    expiry = Expiry(ends, clock, clock)
    expiry.set("cancelled", 999.0)
    expiry.cancel("cancelled")
    expiry.set("other", 999.5)
    async with running(expiry):
        await ends.until("other")


async def test_a_sooner_end_wakes_the_task() -> None:
    ends, clock = Ends(), Clock()
    expiry = Expiry(ends, clock, clock)
    expiry.set("far", 9999.0)
    async with running(expiry):
        await asyncio.sleep(0)
        expiry.set("near", 999.0)
        await ends.until("near")


async def test_a_failed_end_is_tried_again_and_stops_no_other() -> None:
    ends, clock = Ends(), Clock()
    ends.failing = {"stubborn"}
    expiry = Expiry(ends, clock, clock)
    expiry.set("stubborn", 999.0)
    expiry.set("other", 999.5)
    async with running(expiry):
        await ends.until("stubborn", "other")
        while not len(expiry):
            await asyncio.sleep(0)
        clock.now += RETRY_SECONDS
        expiry.set("wakes the task", 5000.0)
        await ends.until("stubborn", "other", "stubborn")


async def test_renewing_again_and_again_does_not_grow_the_queue() -> None:
    expiry = Expiry(Ends(), Clock(), Clock())
    for second in range(10_000):
        expiry.set("busy", 2000.0 + second)
    assert len(expiry._queue) < 200


@pytest.mark.parametrize("step", [86400.0, -86400.0])
async def test_a_step_of_the_clock_on_the_wall_changes_no_end(step: float) -> None:
    ends, wall, clock = Ends(), Clock(), Clock()
    expiry = Expiry(ends, wall, clock)
    expiry.set("old", wall.now + 600)
    async with running(expiry):
        wall.now += step
        expiry.set("new", wall.now + 300)
        clock.now += 299
        expiry.set("wakes the task", wall.now + 5000)
        await asyncio.sleep(0.05)
        assert ends.done == []
        clock.now += 1
        expiry.set("wakes the task", wall.now + 5000)
        await ends.until("new")
        clock.now += 300
        expiry.set("wakes the task", wall.now + 5000)
        await ends.until("new", "old")


async def test_what_was_due_while_the_machine_slept_ends_when_it_is_looked_at_next() -> None:
    ends, clock = Ends(), Clock()
    expiry = Expiry(ends, clock, clock, look_seconds=0.01)
    expiry.set("due", clock.now + 600)
    async with running(expiry):
        await asyncio.sleep(0)
        clock.now += 3600
        await ends.until("due")


async def test_an_end_that_is_cut_off_comes_again() -> None:
    ends, clock = Ends(), Clock()

    async def never(sandbox_id: str) -> None:
        ends.done.append(sandbox_id)
        ends.happened.set()
        await asyncio.Event().wait()

    expiry = Expiry(never, clock, clock)
    expiry.set("slow", clock.now)
    for lives in (1, 2):
        async with running(expiry):
            await ends.until(*["slow"] * lives)
