# SPDX-License-Identifier: Apache-2.0
"""Every store behaves alike, whatever it keeps things in."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from opensandbox import InMemoryAsyncPoolStateStore, PoolDestroyState
from opensandbox._async.pool_store import AsyncPoolStateStore
from opensandbox._async.worker import run_all
from opensandbox.exceptions import PoolDestroyedException, PoolStateStoreUnavailableException
from opensandbox.pool_redis import AsyncRedisPoolStateStore
from sdks.python.tests._async.redis_client import connect
from sdks.python.tests.redis_server import redis_program, start_redis
from tests.harness.wait import eventually_async

pytestmark = pytest.mark.anyio

Store = InMemoryAsyncPoolStateStore | AsyncRedisPoolStateStore
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=["memory", "redis", "redis with text"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    if request.param == "memory":
        yield InMemoryAsyncPoolStateStore()
        return
    if redis_program() is None:
        pytest.skip("no redis here; apt-get install redis-tools")
    server = start_redis()
    try:
        client = connect(server, is_text=request.param == "redis with text")
        yield AsyncRedisPoolStateStore(client, key_prefix="tests")
        await client.aclose()
    finally:
        server.stop()


async def idle(store: AsyncPoolStateStore, pool_name: str = "p") -> list[str]:
    return [entry.sandbox_id for entry in await store.snapshot_idle_entries(pool_name)]


async def test_the_oldest_is_taken_first_and_only_once(store: Store) -> None:
    assert await store.try_take_idle("p") is None
    for sandbox_id in ("a", "b", "a", "c"):
        await store.put_idle("p", sandbox_id)
    await store.put_idle("another", "x")
    assert await idle(store) == ["a", "b", "c"]
    assert (await store.snapshot_counters("p")).idle_count == 3
    await store.remove_idle("p", "b")
    await store.remove_idle("p", "unknown")
    assert [await store.try_take_idle("p") for _ in range(3)] == ["a", "c", None]
    assert await idle(store, "another") == ["x"]


async def test_many_take_at_once_and_nobody_takes_the_same(store: Store) -> None:
    for number in range(40):
        await store.put_idle("p", str(number))
    taken: list[str | None] = []

    async def take() -> None:
        taken.extend([await store.try_take_idle("p") for _ in range(5)])

    await run_all([take] * 10)
    assert sorted(filter(None, taken), key=int) == [str(number) for number in range(40)]


async def test_what_has_ended_is_not_given_away(store: Store) -> None:
    await store.set_idle_entry_ttl("p", timedelta(milliseconds=1))
    await store.put_idle("p", "ended")
    await store.set_idle_entry_ttl("p", MINUTE)
    await store.put_idle("p", "ending")
    await store.set_idle_entry_ttl("p", 3 * MINUTE)
    await store.put_idle("p", "lasting")
    entries = await store.snapshot_idle_entries("p")

    async def has_ended() -> bool:
        return entries[0].expires_at < datetime.now(UTC) - timedelta(milliseconds=10)

    await eventually_async(has_ended)
    taken = await store.try_take_idle_min_ttl("p", 2 * MINUTE)
    assert (taken.sandbox_id, taken.discarded_alive_sandbox_ids) == ("lasting", ("ending",))
    assert await idle(store) == []


async def test_reaping_names_what_lives_on(store: Store) -> None:
    await store.set_idle_entry_ttl("p", MINUTE)
    await store.put_idle("p", "ending")
    await store.set_idle_entry_ttl("p", 3 * MINUTE)
    await store.put_idle("p", "lasting")
    await store.reap_expired_idle("p", datetime.now(UTC))
    assert await idle(store) == ["ending", "lasting"]
    alive = await store.reap_expired_idle_min_ttl("p", datetime.now(UTC), 2 * MINUTE)
    assert alive == ("ending",)
    assert await idle(store) == ["lasting"]


async def test_one_at_a_time_fills_a_pool(store: Store) -> None:
    assert await store.try_acquire_primary_lock("p", "first", MINUTE)
    assert await store.try_acquire_primary_lock("p", "first", MINUTE)
    assert not await store.try_acquire_primary_lock("p", "second", MINUTE)
    assert not await store.renew_primary_lock("p", "second", MINUTE)
    assert await store.renew_primary_lock("p", "first", MINUTE)
    await store.release_primary_lock("p", "second")
    assert not await store.try_acquire_primary_lock("p", "second", MINUTE)
    await store.release_primary_lock("p", "first")
    assert await store.try_acquire_primary_lock("p", "second", timedelta(milliseconds=5))

    async def is_free() -> bool:
        return await store.try_acquire_primary_lock("p", "third", MINUTE)

    await eventually_async(is_free)
    assert not await store.renew_primary_lock("p", "second", MINUTE)


async def test_the_wanted_size_is_shared(store: Store) -> None:
    assert await store.get_max_idle("p") is None
    await store.set_max_idle("p", 0)
    assert await store.get_max_idle("p") == 0
    await store.set_max_idle("p", 7)
    assert await store.get_max_idle("p") == 7


async def test_a_pool_that_is_being_destroyed_takes_nothing_in(store: Store) -> None:
    await store.put_idle("p", "a")
    await store.set_max_idle("p", 3)
    assert await store.get_destroy_state("p") is PoolDestroyState.ACTIVE
    await store.begin_destroy("p", "me")
    await store.begin_destroy("p", "me")
    assert await store.get_destroy_state("p") is PoolDestroyState.DESTROYING
    with pytest.raises(PoolDestroyedException):
        await store.put_idle("p", "b")
    with pytest.raises(PoolDestroyedException):
        await store.set_max_idle("p", 1)
    with pytest.raises(PoolDestroyedException):
        await store.set_idle_entry_ttl("p", MINUTE)
    assert not await store.try_acquire_primary_lock("p", "me", MINUTE)
    assert await store.try_take_idle("p") == "a"
    await store.clear_pool_state("p")
    assert await store.get_destroy_state("p") is PoolDestroyState.DESTROYING
    assert await store.get_max_idle("p") is None
    await store.mark_destroyed("p", "me", None)
    assert await store.get_destroy_state("p") is PoolDestroyState.DESTROYED
    with pytest.raises(PoolDestroyedException):
        await store.begin_destroy("p", "me")


async def test_a_tombstone_falls_down_in_its_time(store: Store) -> None:
    await store.begin_destroy("p", "me")
    await store.mark_destroyed("p", "me", timedelta(milliseconds=5))

    async def is_active() -> bool:
        return await store.get_destroy_state("p") is PoolDestroyState.ACTIVE

    await eventually_async(is_active)
    await store.put_idle("p", "a")
    assert await idle(store) == ["a"]


async def test_what_cannot_work_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="pool_name"):
        await store.try_take_idle(" ")
    with pytest.raises(ValueError, match="sandbox_id"):
        await store.put_idle("p", "")
    with pytest.raises(ValueError, match="owner_id"):
        await store.try_acquire_primary_lock("p", "", MINUTE)
    with pytest.raises(ValueError, match="ttl"):
        await store.try_acquire_primary_lock("p", "me", timedelta(0))
    with pytest.raises(ValueError, match="max_idle"):
        await store.set_max_idle("p", -1)


async def test_a_store_that_is_away_says_so() -> None:
    if redis_program() is None:
        pytest.skip("no redis here; apt-get install redis-tools")
    server = start_redis()
    client = connect(server, is_text=True)
    try:
        store = AsyncRedisPoolStateStore(client)
        await store.put_idle("p", "a")
        server.stop()
        with pytest.raises(PoolStateStoreUnavailableException, match="pool p") as failure:
            await store.try_take_idle("p")
        assert failure.value.is_retryable
    finally:
        server.stop()
        await client.aclose()
