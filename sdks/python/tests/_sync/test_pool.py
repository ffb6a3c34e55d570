# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_pool.py by scripts/unasync.py; change it there.
"""Pools against a real server."""

from datetime import UTC, datetime, timedelta

import pytest

from opensandbox import AcquirePolicy, PooledSandboxCreateReason
from opensandbox._sync.sandbox import SandboxSync
from opensandbox._sync.worker import run_all
from opensandbox.exceptions import (
    InvalidArgumentException,
    PoolAcquireFailedException,
    PoolEmptyException,
    PoolNotRunningException,
)
from opensandbox.pool import PooledSandboxCreateContext, PoolLifecycleState, PoolState
from sdks.python.tests._sync.pools import World
from tests.harness.wait import eventually


def test_a_pool_fills_up_and_fills_up_again(world: World) -> None:
    pool = world.pool(max_idle=3)
    assert (pool.snapshot()).state is PoolState.STOPPED
    pool.start()
    world.until_idle(3)
    before = world.idle()
    sandbox = pool.acquire(timedelta(minutes=30), AcquirePolicy.FAIL_FAST)
    assert sandbox.id == before[0]
    assert (sandbox.commands.run("echo ready")).text == "ready"
    remaining = (sandbox.get_info()).expires_at - datetime.now(UTC)  # type: ignore[operator]
    assert timedelta(minutes=20) < remaining <= timedelta(minutes=30)
    sandbox.destroy()
    world.until_idle(3)
    assert (world.idle())[:2] == before[1:]
    snapshot = pool.snapshot()
    assert (snapshot.state, snapshot.lifecycle_state) == (
        PoolState.HEALTHY,
        PoolLifecycleState.RUNNING,
    )
    assert (snapshot.idle_count, snapshot.max_idle, snapshot.in_flight_operations) == (3, 3, 0)


def test_a_pool_of_none_makes_what_is_asked_for(world: World) -> None:
    pool = world.pool(max_idle=0)
    pool.start()
    for policy in (AcquirePolicy.FAIL_FAST, AcquirePolicy.RETRY_NEXT_IDLE):
        with pytest.raises(PoolEmptyException, match=policy.value):
            pool.acquire(policy=policy)
    for policy in (AcquirePolicy.DIRECT_CREATE, AcquirePolicy.RETRY_NEXT_IDLE_THEN_CREATE):
        sandbox = pool.acquire(timedelta(minutes=5), policy)
        assert world.living() == {sandbox.id}
        sandbox.destroy()


def test_a_dead_sandbox_is_passed_over(world: World) -> None:
    world.occupy()
    pool = world.pool(max_acquire_retries=2)
    pool.start()
    world.put_idle(is_dead=True)
    with pytest.raises(PoolAcquireFailedException, match="FAIL_FAST"):
        pool.acquire(policy=AcquirePolicy.FAIL_FAST)
    world.put_idle(is_dead=True)
    alive = world.put_idle()
    sandbox = pool.acquire(policy=AcquirePolicy.RETRY_NEXT_IDLE)
    assert sandbox.id == alive
    sandbox.close()
    for _ in range(2):
        world.put_idle(is_dead=True)
    spare = world.put_idle()
    with pytest.raises(PoolAcquireFailedException, match="RETRY_NEXT_IDLE"):
        pool.acquire(policy=AcquirePolicy.RETRY_NEXT_IDLE)
    assert world.idle() == [spare]
    world.put_idle(is_dead=True)
    assert world.store.try_take_idle(world.name) == spare
    made = pool.acquire()
    assert made.id in world.living() - {alive, spare}
    made.close()


def test_a_sandbox_that_fails_its_health_check_is_killed(world: World) -> None:
    def is_well(_: SandboxSync) -> bool:
        return False

    world.occupy()
    pool = world.pool(
        acquire_health_check=is_well, acquire_ready_timeout=timedelta(milliseconds=100)
    )
    pool.start()
    ill = world.put_idle()
    with pytest.raises(PoolAcquireFailedException):
        pool.acquire(policy=AcquirePolicy.FAIL_FAST)
    world.until_gone(ill)


def test_a_sandbox_that_ends_soon_is_killed_instead_of_given_away(world: World) -> None:
    world.occupy()
    pool = world.pool(acquire_min_remaining_ttl=timedelta(minutes=2))
    pool.start()
    world.store.set_idle_entry_ttl(world.name, timedelta(minutes=1))
    ending = world.put_idle()
    world.store.set_idle_entry_ttl(world.name, timedelta(microseconds=1))
    ended = world.put_idle()
    world.store.set_idle_entry_ttl(world.name, timedelta(minutes=3))
    lasting = world.put_idle()
    sandbox = pool.acquire(policy=AcquirePolicy.FAIL_FAST)
    assert sandbox.id == lasting
    sandbox.close()
    world.until_gone(ending)
    assert world.living() == {lasting, ended}  # the server ends the other by itself


def test_the_primary_kills_what_ends_soon_and_replaces_it(world: World) -> None:
    world.store.set_idle_entry_ttl(world.name, timedelta(seconds=1))
    ending = world.put_idle()
    pool = world.pool(max_idle=1)
    pool.start()
    world.until_gone(ending)
    world.until_idle(1)


def test_a_pool_can_be_resized_and_emptied(world: World) -> None:
    pool = world.pool(max_idle=1)
    pool.start()
    world.until_idle(1)
    pool.resize(4)
    world.until_idle(4)
    pool.resize(2)
    world.until_idle(2)
    pool.resize(0)
    world.until_idle(0)
    with pytest.raises(ValueError, match="max_idle"):
        pool.resize(-1)
    assert (pool.snapshot()).max_idle == 0


def test_what_is_idle_can_be_released(world: World) -> None:
    world.occupy()
    pool = world.pool()
    for _ in range(3):
        world.put_idle()
    assert pool.release_all_idle() == 3
    assert world.living() == set()
    for _ in range(5):
        world.put_idle()
    assert pool.release_all_idle_parallel(max_workers=2) == 5
    assert world.living() == set()
    with pytest.raises(ValueError, match="max_workers"):
        pool.release_all_idle_parallel(max_workers=0)


def test_a_pool_that_is_shut_down_leaves_what_is_idle_and_can_start_again(
    world: World,
) -> None:
    pool = world.pool()
    with pytest.raises(PoolNotRunningException, match="NOT_STARTED"):
        pool.acquire()
    pool.start()
    pool.start()
    world.until_idle(2)
    pool.shutdown()
    pool.shutdown(graceful=False)
    with pytest.raises(PoolNotRunningException, match="STOPPED"):
        pool.acquire()
    idle = world.idle()
    assert world.living() == set(idle)
    pool.start()
    sandbox = pool.acquire(policy=AcquirePolicy.FAIL_FAST)
    assert sandbox.id == idle[0]
    sandbox.destroy()


@pytest.mark.parametrize("graceful", [True, False])
def test_what_is_being_made_during_a_shutdown_is_killed(world: World, graceful: bool) -> None:
    prepared: list[str] = []
    is_shut = False

    def prepare(sandbox: SandboxSync) -> None:
        prepared.append(sandbox.id)

        def may_go_on() -> bool:
            return is_shut

        eventually(may_go_on)

    def is_preparing() -> bool:
        return len(prepared) == 2

    pool = world.pool(warmup_sandbox_preparer=prepare, drain_timeout=timedelta(milliseconds=50))
    pool.start()
    eventually(is_preparing)
    pool.shutdown(graceful=graceful)
    assert world.living() == set(prepared)
    is_shut = True
    world.until_gone(*prepared)
    assert world.idle() == []


def test_a_pool_that_fails_is_degraded_until_it_works_again(world: World) -> None:
    is_broken = True

    def create(context: PooledSandboxCreateContext) -> SandboxSync:
        if is_broken:
            raise RuntimeError("no more sandboxes today")
        return world.create(context)

    def is_degraded() -> bool:
        return (pool.snapshot()).state is PoolState.DEGRADED

    def is_healthy() -> bool:
        return (pool.snapshot()).state is PoolState.HEALTHY

    pool = world.pool(max_idle=1, sandbox_creator=create, degraded_threshold=2)
    pool.start()
    eventually(is_degraded)
    snapshot = pool.snapshot()
    assert snapshot.failure_count >= 2
    assert snapshot.last_error == "no more sandboxes today"
    is_broken = False
    world.until_idle(1)
    eventually(is_healthy)
    snapshot = pool.snapshot()
    assert (snapshot.failure_count, snapshot.last_error) == (0, None)


def test_a_sandbox_is_prepared_before_it_is_idle(world: World) -> None:
    checks: list[str] = []

    def prepare(sandbox: SandboxSync) -> None:
        sandbox.patch_metadata({"prepared": "yes"})

    def is_well(sandbox: SandboxSync) -> bool:
        checks.append(((sandbox.get_info()).metadata or {})["prepared"])
        return len(checks) > 1

    pool = world.pool(
        max_idle=1,
        warmup_health_check_initial_delay=timedelta(milliseconds=1),
        warmup_health_check_polling_interval=timedelta(milliseconds=1),
        warmup_sandbox_preparer=prepare,
        warmup_post_prepare_health_check=is_well,
    )
    pool.start()
    world.until_idle(1)
    assert checks == ["yes", "yes"]


def test_a_sandbox_that_cannot_be_prepared_is_killed(world: World) -> None:
    def prepare(_: SandboxSync) -> None:
        raise RuntimeError("cannot")

    def has_failed() -> bool:
        return (pool.snapshot()).failure_count >= 1

    pool = world.pool(max_idle=1, warmup_sandbox_preparer=prepare, degraded_threshold=1)
    pool.start()
    eventually(has_failed)
    pool.shutdown()
    assert world.living() == set()


def test_a_creator_is_told_what_the_sandbox_is_for(world: World) -> None:
    seen: list[PooledSandboxCreateContext] = []

    def create(context: PooledSandboxCreateContext) -> SandboxSync:
        seen.append(context)
        return world.create(context)

    pool = world.pool(
        max_idle=0, sandbox_creator=create, owner_id="me", idle_timeout=timedelta(hours=1)
    )
    pool.start()
    sandbox = pool.acquire(timedelta(minutes=5))
    remaining = (sandbox.get_info()).expires_at - datetime.now(UTC)  # type: ignore[operator]
    assert remaining <= timedelta(minutes=5)
    sandbox.destroy()
    pool.resize(1)
    world.until_idle(1)
    reasons = [context.reason for context in seen]
    assert reasons == [PooledSandboxCreateReason.DIRECT_CREATE, PooledSandboxCreateReason.WARMUP]
    assert {(c.pool_name, c.owner_id, c.idle_timeout) for c in seen} == {
        (world.name, "me", timedelta(hours=1))
    }


def test_one_of_two_pools_fills_their_store_and_the_other_takes_over(world: World) -> None:
    made: list[str] = []

    def create(context: PooledSandboxCreateContext) -> SandboxSync:
        made.append(context.owner_id)
        return world.create(context)

    first = world.pool(max_idle=3, owner_id="first", sandbox_creator=create)
    second = world.pool(max_idle=3, owner_id="second", sandbox_creator=create)
    first.start()
    second.start()
    world.until_idle(3)
    primary, other = (first, second) if made[0] == "first" else (second, first)
    assert len(set(made)) == 1
    sandbox = other.acquire(policy=AcquirePolicy.FAIL_FAST)
    sandbox.destroy()
    world.until_idle(3)
    assert len(set(made)) == 1
    primary.shutdown()
    sandbox = other.acquire(policy=AcquirePolicy.FAIL_FAST)
    sandbox.destroy()
    world.until_idle(3)
    assert len(set(made)) == 2


def test_fifty_acquire_at_once_and_each_gets_its_own(world: World) -> None:
    pool = world.pool(max_idle=5)
    pool.start()
    world.until_idle(5)
    got: list[str] = []

    def acquire() -> None:
        sandbox = pool.acquire(timedelta(minutes=5))
        assert (sandbox.commands.run("true")).exit_code == 0
        got.append(sandbox.id)
        sandbox.destroy()

    run_all([acquire] * 50)
    assert len(set(got)) == 50
    world.until_idle(5)


def test_a_pool_refuses_what_cannot_work(world: World) -> None:
    for wrong in (
        {"pool_name": " "},
        {"max_idle": -1},
        {"owner_id": ""},
        {"warmup_create_qps": 0},
        {"max_acquire_retries": 0},
        {"idle_timeout": timedelta(0)},
        {"drain_timeout": timedelta(seconds=-1)},
        {"acquire_min_remaining_ttl": timedelta(days=2)},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            world.pool(**wrong)
    pool = world.pool(max_idle=0)
    pool.start()
    with pytest.raises(InvalidArgumentException, match="sandbox_timeout"):
        pool.acquire(timedelta(0))
