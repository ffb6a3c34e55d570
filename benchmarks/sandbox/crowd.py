# SPDX-License-Identifier: Apache-2.0
"""What a create takes beside many sandboxes that live."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from benchmarks.sandbox.measure import SETTLE_SECONDS, RawResult, create_to_first_output
from benchmarks.sandbox.server import Server
from opensandbox import Sandbox

AT_ONCE = 25
LONG_LIFE = timedelta(hours=2)


def measure_crowd(server: Server, image: str, live: int, count: int) -> RawResult:
    """Create one after the other beside nobody, beside many twice as often, beside nobody again."""
    before = _creates(server, image, count)
    beside_many = asyncio.run(_beside(server, image, live, 2 * count))
    while list((server.data_dir / "trash").iterdir()):  # the files of the many
        time.sleep(SETTLE_SECONDS)
    after = _creates(server, image, count)
    return RawResult(
        name="create_at_500_vs_empty", unit="ms", ours=beside_many, other=[*before, *after]
    )


async def _beside(server: Server, image: str, live: int, count: int) -> list[float]:
    crowd: list[Sandbox] = []
    try:
        while len(crowd) < live:
            several = min(AT_ONCE, live - len(crowd))
            crowd += await asyncio.gather(*(_create(server, image) for _ in range(several)))
        return await asyncio.to_thread(_creates, server, image, count)
    finally:
        for first in range(0, len(crowd), AT_ONCE):
            await asyncio.gather(*(each.destroy() for each in crowd[first : first + AT_ONCE]))


async def _create(server: Server, image: str) -> Sandbox:
    config = server.config.model_copy(update={"request_timeout": timedelta(minutes=2)})
    minutes = timedelta(minutes=2)
    return await Sandbox.create(
        image, connection_config=config, timeout=LONG_LIFE, ready_timeout=minutes
    )


def _creates(server: Server, image: str, count: int) -> list[float]:
    samples = []
    for _ in range(count + 1):
        time.sleep(SETTLE_SECONDS)
        samples.append(create_to_first_output(server, image).first_output_ms)
    return samples[1:]  # the first only warms up
