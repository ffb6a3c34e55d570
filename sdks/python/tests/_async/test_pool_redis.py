# SPDX-License-Identifier: Apache-2.0
"""Pools that share a store in Redis, against a real server."""

from datetime import timedelta

import pytest

from opensandbox import AcquirePolicy, SandboxPoolManagerAsync
from opensandbox.exceptions import PoolStateStoreUnavailableException
from opensandbox.pool_redis import AsyncRedisPoolStateStore
from sdks.python.tests._async.pools import World
from sdks.python.tests._async.redis_client import connect
from sdks.python.tests.redis_server import redis_program, start_redis

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(redis_program() is None, reason="apt-get install redis-tools"),
]


async def test_pools_in_redis_share_and_survive_its_loss(world: World) -> None:
    redis = start_redis()
    clients = [connect(redis, is_text=True) for _ in range(3)]
    try:
        world.store = AsyncRedisPoolStateStore(clients[0])
        first = world.pool(owner_id="first")
        second = world.pool(owner_id="second", state_store=AsyncRedisPoolStateStore(clients[1]))
        await first.start()
        await second.start()
        await world.until_idle(2)
        sandbox = await second.acquire(timedelta(minutes=5), AcquirePolicy.FAIL_FAST)
        assert (await sandbox.commands.run("echo shared")).text == "shared"
        await sandbox.destroy()
        await world.until_idle(2)
        await first.resize(1)
        await world.until_idle(1)
        store = AsyncRedisPoolStateStore(clients[2])
        manager = SandboxPoolManagerAsync(state_store=store, connection_config=world.config)
        result = await manager.destroy(world.name)
        assert result.killed_idle_count == result.drained_idle_count >= 1

        world.name += "-2"
        lonely = world.pool(max_idle=0)
        await lonely.start()
        redis.stop()
        with pytest.raises(PoolStateStoreUnavailableException):
            await lonely.acquire(policy=AcquirePolicy.FAIL_FAST)
        made = await lonely.acquire(timedelta(minutes=5), AcquirePolicy.DIRECT_CREATE)
        assert await world.living() == {made.id}
        await made.close()
        for pool in (first, second, lonely):
            await pool.shutdown()
    finally:
        redis.stop()
        for client in clients:
            await client.aclose()
