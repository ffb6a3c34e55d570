# SPDX-License-Identifier: Apache-2.0
"""How long the event loop was ever busy with one thing: whoever waits meanwhile waits in vain."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import os
import time
from collections.abc import AsyncIterator, Callable

from opensandbox_server.host.supervision import Supervised

log = logging.getLogger(__name__)

VARIABLE = "OPENSANDBOX_WATCH_STALLS"
KEPT = 5
"""The longest ones are told."""

LOOK_SECONDS = 0.002
"""A stall is what a sleep of this length takes longer than that."""

MEASURE_SECONDS = 0.25
"""Between two looks that are always on: four short turns a second are no load."""

Stall = tuple[float, float]
"""How long it was, and how much of that our thread was computing; the rest it was kept waiting."""


@contextlib.asynccontextmanager
async def measure_stalls(saw: Callable[[float], None]) -> AsyncIterator[None]:
    """Tell at every look how many seconds late the event loop came to it."""

    async def look() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(MEASURE_SECONDS)
            saw(max(0.0, time.perf_counter() - began - MEASURE_SECONDS))

    looking = asyncio.create_task(Supervised("lateness", look).run(), name="lateness")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


@contextlib.asynccontextmanager
async def watch_stalls() -> AsyncIterator[None]:
    """Report the longest stalls at the end, when the environment asks for it."""
    if not os.environ.get(VARIABLE):
        yield
        return
    stalls: list[Stall] = [(0.0, 0.0)] * KEPT
    looking = asyncio.create_task(Supervised("stalls", lambda: _look(stalls)).run(), name="stalls")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        told = ", ".join(
            f"{1e3 * wall:.1f} (own {1e3 * own:.1f})" for wall, own in _longest(stalls)
        )
        log.info("longest event-loop stalls in ms: %s", told)


async def _look(stalls: list[Stall]) -> None:
    while True:
        began, computed = time.perf_counter(), time.thread_time()
        await asyncio.sleep(LOOK_SECONDS)
        wall = time.perf_counter() - began - LOOK_SECONDS
        heapq.heappushpop(stalls, (wall, time.thread_time() - computed))


def _longest(stalls: list[Stall]) -> list[Stall]:
    return sorted(stalls, reverse=True)
