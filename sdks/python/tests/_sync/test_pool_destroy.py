# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_pool_destroy.py by scripts/unasync.py; change it there.
"""Destroying a pool ends it for everybody who shares its store."""

from datetime import timedelta

import pytest

from opensandbox import PoolDestroyOptions, PoolDestroyState, SandboxPoolManagerSync
from opensandbox.exceptions import PoolDestroyedException, PoolDestroyIncompleteException
from sdks.python.tests._sync.pools import World


def test_a_destroyed_pool_is_of_no_use_to_anybody(world: World) -> None:
    pool = world.pool()
    pool.start()
    sandbox = pool.acquire()
    world.until_idle_beside(2, sandbox.id)
    manager = SandboxPoolManagerSync(state_store=world.store, connection_config=world.config)
    result = manager.destroy(world.name)
    assert result.state is PoolDestroyState.DESTROYED
    assert result.persistent_state_cleared
    assert result.drained_idle_count == result.killed_idle_count >= 2
    with pytest.raises(PoolDestroyedException, match="another name"):
        pool.acquire()
    with pytest.raises(PoolDestroyedException):
        pool.resize(3)
    pool.shutdown()
    assert world.living() == {sandbox.id}  # who has one keeps it
    with pytest.raises(PoolDestroyedException):
        pool.start()
    with pytest.raises(PoolDestroyedException):
        world.pool().start()
    again = manager.destroy(world.name)
    assert (again.state, again.persistent_state_cleared) == (PoolDestroyState.DESTROYED, False)
    sandbox.destroy()


def test_the_name_is_free_again_when_the_tombstone_is_gone(world: World) -> None:
    manager = SandboxPoolManagerSync(state_store=world.store, connection_config=world.config)
    manager.destroy(world.name, PoolDestroyOptions(tombstone_ttl=timedelta(milliseconds=1)))
    world.until_active()
    pool = world.pool(max_idle=1)
    pool.start()
    world.until_idle(1)


def test_what_takes_too_long_is_told_and_can_be_repeated(world: World) -> None:
    for _ in range(3):
        world.put_idle()
    manager = SandboxPoolManagerSync(state_store=world.store, connection_config=world.config)
    with pytest.raises(PoolDestroyIncompleteException, match="again"):
        manager.destroy(
            world.name, PoolDestroyOptions(drain_timeout=timedelta(microseconds=1))
        )
    with pytest.raises(PoolDestroyedException, match="destroying"):
        world.pool().start()
    result = manager.destroy(world.name)
    assert result.drained_idle_count == 2
    assert world.living() == set()


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="tombstone_ttl"):
        PoolDestroyOptions(tombstone_ttl=timedelta(0))
    with pytest.raises(ValueError, match="drain_timeout"):
        PoolDestroyOptions(drain_timeout=timedelta(seconds=-1))
