# SPDX-License-Identifier: Apache-2.0
"""Giving up on an acquire leaves no sandbox. Only the async half can be given up on."""

import asyncio
from datetime import timedelta

import pytest

from opensandbox import Sandbox
from sdks.python.tests._async.conftest import world as world
from sdks.python.tests._async.pools import World

pytestmark = pytest.mark.anyio

STEPS = 40  # more than there are between the first request and the last


@pytest.mark.parametrize("max_idle", [0, 3])
async def test_an_acquire_cancelled_anywhere_leaks_no_sandbox(world: World, max_idle: int) -> None:
    pool = world.pool(max_idle=max_idle)
    await pool.start()
    await world.until_idle(max_idle)
    for step in range(STEPS):
        acquiring = asyncio.create_task(pool.acquire(timedelta(minutes=5)))
        for _ in range(step):
            await asyncio.sleep(0)  # one turn of the event loop further than the last time
        acquiring.cancel()
        (outcome,) = await asyncio.gather(acquiring, return_exceptions=True)
        if isinstance(outcome, Sandbox):
            await outcome.destroy()
    await world.until_idle(max_idle)


async def test_an_acquire_cancelled_while_a_sandbox_is_checked_kills_it(world: World) -> None:
    checking = asyncio.Event()
    is_well = asyncio.Event()

    async def check(_: Sandbox) -> bool:
        checking.set()
        await is_well.wait()
        return True

    pool = world.pool(max_idle=0, acquire_health_check=check)
    await pool.start()
    acquiring = asyncio.create_task(pool.acquire(timedelta(minutes=5)))
    await checking.wait()
    assert len(await world.living()) == 1
    acquiring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acquiring
    is_well.set()
    await pool.shutdown()
    assert await world.living() == set()


async def test_many_cancelled_at_once_leave_nothing(world: World) -> None:
    pool = world.pool(max_idle=4)
    await pool.start()
    await world.until_idle(4)
    acquiring = [asyncio.create_task(pool.acquire(timedelta(minutes=5))) for _ in range(20)]
    done, _ = await asyncio.wait(acquiring, return_when=asyncio.FIRST_COMPLETED)
    assert done
    for task in acquiring:
        task.cancel()
    for outcome in await asyncio.gather(*acquiring, return_exceptions=True):
        if isinstance(outcome, Sandbox):
            await outcome.destroy()
    await world.until_idle(4)
