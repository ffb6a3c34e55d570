# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_pool_redis.py by scripts/unasync.py; change it there.
"""Pools that share a store in Redis, against a real server."""

from datetime import timedelta

import pytest

from opensandbox import AcquirePolicy, SandboxPoolManagerSync
from opensandbox.exceptions import PoolStateStoreUnavailableException
from opensandbox.pool_redis import RedisPoolStateStore
from sdks.python.tests._sync.pools import World
from sdks.python.tests._sync.redis_client import connect
from sdks.python.tests.redis_server import redis_program, start_redis

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(redis_program() is None, reason="apt-get install redis-tools"),
]


def test_pools_in_redis_share_and_survive_its_loss(world: World) -> None:
    redis = start_redis()
    clients = [connect(redis, is_text=True) for _ in range(3)]
    try:
        world.store = RedisPoolStateStore(clients[0])
        first = world.pool(owner_id="first")
        second = world.pool(owner_id="second", state_store=RedisPoolStateStore(clients[1]))
        first.start()
        second.start()
        world.until_idle(2)
        sandbox = second.acquire(timedelta(minutes=5), AcquirePolicy.FAIL_FAST)
        assert (sandbox.commands.run("echo shared")).text == "shared"
        sandbox.destroy()
        world.until_idle(2)
        first.resize(1)
        world.until_idle(1)
        store = RedisPoolStateStore(clients[2])
        manager = SandboxPoolManagerSync(state_store=store, connection_config=world.config)
        result = manager.destroy(world.name)
        assert result.killed_idle_count == result.drained_idle_count >= 1

        world.name += "-2"
        lonely = world.pool(max_idle=0)
        lonely.start()
        redis.stop()
        with pytest.raises(PoolStateStoreUnavailableException):
            lonely.acquire(policy=AcquirePolicy.FAIL_FAST)
        made = lonely.acquire(timedelta(minutes=5), AcquirePolicy.DIRECT_CREATE)
        assert world.living() == {made.id}
        made.close()
        for pool in (first, second, lonely):
            pool.shutdown()
    finally:
        redis.stop()
        for client in clients:
            client.close()
