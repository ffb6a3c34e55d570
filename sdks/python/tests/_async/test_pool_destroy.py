# SPDX-License-Identifier: Apache-2.0
"""Destroying a pool ends it for everybody who shares its store."""

from datetime import timedelta

import pytest

from opensandbox import PoolDestroyOptions, PoolDestroyState, SandboxPoolManagerAsync
from opensandbox.exceptions import PoolDestroyedException, PoolDestroyIncompleteException
from sdks.python.tests._async.pools import World

pytestmark = pytest.mark.anyio


async def test_a_destroyed_pool_is_of_no_use_to_anybody(world: World) -> None:
    pool = world.pool()
    await pool.start()
    sandbox = await pool.acquire()
    await world.until_idle_beside(2, sandbox.id)
    manager = SandboxPoolManagerAsync(state_store=world.store, connection_config=world.config)
    result = await manager.destroy(world.name)
    assert result.state is PoolDestroyState.DESTROYED
    assert result.persistent_state_cleared
    assert result.drained_idle_count == result.killed_idle_count >= 2
    with pytest.raises(PoolDestroyedException, match="another name"):
        await pool.acquire()
    with pytest.raises(PoolDestroyedException):
        await pool.resize(3)
    await pool.shutdown()
    assert await world.living() == {sandbox.id}  # who has one keeps it
    with pytest.raises(PoolDestroyedException):
        await pool.start()
    with pytest.raises(PoolDestroyedException):
        await world.pool().start()
    again = await manager.destroy(world.name)
    assert (again.state, again.persistent_state_cleared) == (PoolDestroyState.DESTROYED, False)
    await sandbox.destroy()


async def test_the_name_is_free_again_when_the_tombstone_is_gone(world: World) -> None:
    manager = SandboxPoolManagerAsync(state_store=world.store, connection_config=world.config)
    await manager.destroy(world.name, PoolDestroyOptions(tombstone_ttl=timedelta(milliseconds=1)))
    await world.until_active()
    pool = world.pool(max_idle=1)
    await pool.start()
    await world.until_idle(1)


async def test_what_takes_too_long_is_told_and_can_be_repeated(world: World) -> None:
    for _ in range(3):
        await world.put_idle()
    manager = SandboxPoolManagerAsync(state_store=world.store, connection_config=world.config)
    with pytest.raises(PoolDestroyIncompleteException, match="again"):
        await manager.destroy(
            world.name, PoolDestroyOptions(drain_timeout=timedelta(microseconds=1))
        )
    with pytest.raises(PoolDestroyedException, match="destroying"):
        await world.pool().start()
    result = await manager.destroy(world.name)
    assert result.drained_idle_count == 2
    assert await world.living() == set()


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="tombstone_ttl"):
        PoolDestroyOptions(tombstone_ttl=timedelta(0))
    with pytest.raises(ValueError, match="drain_timeout"):
        PoolDestroyOptions(drain_timeout=timedelta(seconds=-1))
