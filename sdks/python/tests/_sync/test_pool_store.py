# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_pool_store.py by scripts/unasync.py; change it there.
"""Every store behaves alike, whatever it keeps things in."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from opensandbox import InMemoryPoolStateStore, PoolDestroyState
from opensandbox._sync.pool_store import PoolStateStore
from opensandbox._sync.worker import run_all
from opensandbox.exceptions import PoolDestroyedException, PoolStateStoreUnavailableException
from opensandbox.pool_redis import RedisPoolStateStore
from sdks.python.tests._sync.redis_client import connect
from sdks.python.tests.redis_server import redis_program, start_redis
from tests.harness.wait import eventually

Store = InMemoryPoolStateStore | RedisPoolStateStore
MINUTE = timedelta(minutes=1)


@pytest.fixture(params=["memory", "redis", "redis with text"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store of each kind."""
    if request.param == "memory":
        yield InMemoryPoolStateStore()
        return
    if redis_program() is None:
        pytest.skip("no redis here; apt-get install redis-tools")
    server = start_redis()
    try:
        client = connect(server, is_text=request.param == "redis with text")
        yield RedisPoolStateStore(client, key_prefix="tests")
        client.close()
    finally:
        server.stop()


def idle(store: PoolStateStore, pool_name: str = "p") -> list[str]:
    return [entry.sandbox_id for entry in store.snapshot_idle_entries(pool_name)]


def test_the_oldest_is_taken_first_and_only_once(store: Store) -> None:
    assert store.try_take_idle("p") is None
    for sandbox_id in ("a", "b", "a", "c"):
        store.put_idle("p", sandbox_id)
    store.put_idle("another", "x")
    assert idle(store) == ["a", "b", "c"]
    assert (store.snapshot_counters("p")).idle_count == 3
    store.remove_idle("p", "b")
    store.remove_idle("p", "unknown")
    assert [store.try_take_idle("p") for _ in range(3)] == ["a", "c", None]
    assert idle(store, "another") == ["x"]


def test_many_take_at_once_and_nobody_takes_the_same(store: Store) -> None:
    for number in range(40):
        store.put_idle("p", str(number))
    taken: list[str | None] = []

    def take() -> None:
        taken.extend([store.try_take_idle("p") for _ in range(5)])

    run_all([take] * 10)
    assert sorted(filter(None, taken), key=int) == [str(number) for number in range(40)]


def test_what_has_ended_is_not_given_away(store: Store) -> None:
    store.set_idle_entry_ttl("p", timedelta(milliseconds=1))
    store.put_idle("p", "ended")
    store.set_idle_entry_ttl("p", MINUTE)
    store.put_idle("p", "ending")
    store.set_idle_entry_ttl("p", 3 * MINUTE)
    store.put_idle("p", "lasting")
    entries = store.snapshot_idle_entries("p")

    def has_ended() -> bool:
        return entries[0].expires_at < datetime.now(UTC) - timedelta(milliseconds=10)

    eventually(has_ended)
    taken = store.try_take_idle_min_ttl("p", 2 * MINUTE)
    assert (taken.sandbox_id, taken.discarded_alive_sandbox_ids) == ("lasting", ("ending",))
    assert idle(store) == []


def test_reaping_names_what_lives_on(store: Store) -> None:
    store.set_idle_entry_ttl("p", MINUTE)
    store.put_idle("p", "ending")
    store.set_idle_entry_ttl("p", 3 * MINUTE)
    store.put_idle("p", "lasting")
    store.reap_expired_idle("p", datetime.now(UTC))
    assert idle(store) == ["ending", "lasting"]
    alive = store.reap_expired_idle_min_ttl("p", datetime.now(UTC), 2 * MINUTE)
    assert alive == ("ending",)
    assert idle(store) == ["lasting"]


def test_one_at_a_time_fills_a_pool(store: Store) -> None:
    assert store.try_acquire_primary_lock("p", "first", MINUTE)
    assert store.try_acquire_primary_lock("p", "first", MINUTE)
    assert not store.try_acquire_primary_lock("p", "second", MINUTE)
    assert not store.renew_primary_lock("p", "second", MINUTE)
    assert store.renew_primary_lock("p", "first", MINUTE)
    store.release_primary_lock("p", "second")
    assert not store.try_acquire_primary_lock("p", "second", MINUTE)
    store.release_primary_lock("p", "first")
    assert store.try_acquire_primary_lock("p", "second", timedelta(milliseconds=5))

    def is_free() -> bool:
        return store.try_acquire_primary_lock("p", "third", MINUTE)

    eventually(is_free)
    assert not store.renew_primary_lock("p", "second", MINUTE)


def test_the_wanted_size_is_shared(store: Store) -> None:
    assert store.get_max_idle("p") is None
    store.set_max_idle("p", 0)
    assert store.get_max_idle("p") == 0
    store.set_max_idle("p", 7)
    assert store.get_max_idle("p") == 7


def test_a_pool_that_is_being_destroyed_takes_nothing_in(store: Store) -> None:
    store.put_idle("p", "a")
    store.set_max_idle("p", 3)
    assert store.get_destroy_state("p") is PoolDestroyState.ACTIVE
    store.begin_destroy("p", "me")
    store.begin_destroy("p", "me")
    assert store.get_destroy_state("p") is PoolDestroyState.DESTROYING
    with pytest.raises(PoolDestroyedException):
        store.put_idle("p", "b")
    with pytest.raises(PoolDestroyedException):
        store.set_max_idle("p", 1)
    with pytest.raises(PoolDestroyedException):
        store.set_idle_entry_ttl("p", MINUTE)
    assert not store.try_acquire_primary_lock("p", "me", MINUTE)
    assert store.try_take_idle("p") == "a"
    store.clear_pool_state("p")
    assert store.get_destroy_state("p") is PoolDestroyState.DESTROYING
    assert store.get_max_idle("p") is None
    store.mark_destroyed("p", "me", None)
    assert store.get_destroy_state("p") is PoolDestroyState.DESTROYED
    with pytest.raises(PoolDestroyedException):
        store.begin_destroy("p", "me")


def test_a_tombstone_falls_down_in_its_time(store: Store) -> None:
    store.begin_destroy("p", "me")
    store.mark_destroyed("p", "me", timedelta(milliseconds=5))

    def is_active() -> bool:
        return store.get_destroy_state("p") is PoolDestroyState.ACTIVE

    eventually(is_active)
    store.put_idle("p", "a")
    assert idle(store) == ["a"]


def test_what_cannot_work_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="pool_name"):
        store.try_take_idle(" ")
    with pytest.raises(ValueError, match="sandbox_id"):
        store.put_idle("p", "")
    with pytest.raises(ValueError, match="owner_id"):
        store.try_acquire_primary_lock("p", "", MINUTE)
    with pytest.raises(ValueError, match="ttl"):
        store.try_acquire_primary_lock("p", "me", timedelta(0))
    with pytest.raises(ValueError, match="max_idle"):
        store.set_max_idle("p", -1)


def test_a_store_that_is_away_says_so() -> None:
    if redis_program() is None:
        pytest.skip("no redis here; apt-get install redis-tools")
    server = start_redis()
    client = connect(server, is_text=True)
    try:
        store = RedisPoolStateStore(client)
        store.put_idle("p", "a")
        server.stop()
        with pytest.raises(PoolStateStoreUnavailableException, match="pool p") as failure:
            store.try_take_idle("p")
        assert failure.value.is_retryable
    finally:
        server.stop()
        client.close()
