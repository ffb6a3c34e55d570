# SPDX-License-Identifier: Apache-2.0
"""Pools against a real server."""

from datetime import UTC, datetime, timedelta

import pytest

from opensandbox import AcquirePolicy, PooledSandboxCreateReason
from opensandbox._async.sandbox import Sandbox
from opensandbox._async.worker import run_all
from opensandbox.exceptions import (
    InvalidArgumentException,
    PoolAcquireFailedException,
    PoolEmptyException,
    PoolNotRunningException,
)
from opensandbox.pool import PooledSandboxCreateContext, PoolLifecycleState, PoolState
from sdks.python.tests._async.pools import World
from tests.harness.wait import eventually_async

pytestmark = pytest.mark.anyio


async def test_a_pool_fills_up_and_fills_up_again(world: World) -> None:
    pool = world.pool(max_idle=3)
    assert (await pool.snapshot()).state is PoolState.STOPPED
    await pool.start()
    await world.until_idle(3)
    before = await world.idle()
    sandbox = await pool.acquire(timedelta(minutes=30), AcquirePolicy.FAIL_FAST)
    assert sandbox.id == before[0]
    assert (await sandbox.commands.run("echo ready")).text == "ready"
    remaining = (await sandbox.get_info()).expires_at - datetime.now(UTC)  # type: ignore[operator]
    assert timedelta(minutes=20) < remaining <= timedelta(minutes=30)
    await sandbox.destroy()
    await world.until_idle(3)
    assert (await world.idle())[:2] == before[1:]
    snapshot = await pool.snapshot()
    assert (snapshot.state, snapshot.lifecycle_state) == (
        PoolState.HEALTHY,
        PoolLifecycleState.RUNNING,
    )
    assert (snapshot.idle_count, snapshot.max_idle, snapshot.in_flight_operations) == (3, 3, 0)


async def test_a_pool_of_none_makes_what_is_asked_for(world: World) -> None:
    pool = world.pool(max_idle=0)
    await pool.start()
    for policy in (AcquirePolicy.FAIL_FAST, AcquirePolicy.RETRY_NEXT_IDLE):
        with pytest.raises(PoolEmptyException, match=policy.value):
            await pool.acquire(policy=policy)
    for policy in (AcquirePolicy.DIRECT_CREATE, AcquirePolicy.RETRY_NEXT_IDLE_THEN_CREATE):
        sandbox = await pool.acquire(timedelta(minutes=5), policy)
        assert await world.living() == {sandbox.id}
        await sandbox.destroy()


async def test_a_dead_sandbox_is_passed_over(world: World) -> None:
    await world.occupy()
    pool = world.pool(max_acquire_retries=2)
    await pool.start()
    await world.put_idle(is_dead=True)
    with pytest.raises(PoolAcquireFailedException, match="FAIL_FAST"):
        await pool.acquire(policy=AcquirePolicy.FAIL_FAST)
    await world.put_idle(is_dead=True)
    alive = await world.put_idle()
    sandbox = await pool.acquire(policy=AcquirePolicy.RETRY_NEXT_IDLE)
    assert sandbox.id == alive
    await sandbox.close()
    for _ in range(2):
        await world.put_idle(is_dead=True)
    spare = await world.put_idle()
    with pytest.raises(PoolAcquireFailedException, match="RETRY_NEXT_IDLE"):
        await pool.acquire(policy=AcquirePolicy.RETRY_NEXT_IDLE)
    assert await world.idle() == [spare]
    await world.put_idle(is_dead=True)
    assert await world.store.try_take_idle(world.name) == spare
    made = await pool.acquire()
    assert made.id in await world.living() - {alive, spare}
    await made.close()


async def test_a_sandbox_that_fails_its_health_check_is_killed(world: World) -> None:
    async def is_well(_: Sandbox) -> bool:
        return False

    await world.occupy()
    pool = world.pool(
        acquire_health_check=is_well, acquire_ready_timeout=timedelta(milliseconds=100)
    )
    await pool.start()
    ill = await world.put_idle()
    with pytest.raises(PoolAcquireFailedException):
        await pool.acquire(policy=AcquirePolicy.FAIL_FAST)
    await world.until_gone(ill)


async def test_a_sandbox_that_ends_soon_is_killed_instead_of_given_away(world: World) -> None:
    await world.occupy()
    pool = world.pool(acquire_min_remaining_ttl=timedelta(minutes=2))
    await pool.start()
    await world.store.set_idle_entry_ttl(world.name, timedelta(minutes=1))
    ending = await world.put_idle()
    await world.store.set_idle_entry_ttl(world.name, timedelta(microseconds=1))
    ended = await world.put_idle()
    await world.store.set_idle_entry_ttl(world.name, timedelta(minutes=3))
    lasting = await world.put_idle()
    sandbox = await pool.acquire(policy=AcquirePolicy.FAIL_FAST)
    assert sandbox.id == lasting
    await sandbox.close()
    await world.until_gone(ending)
    assert await world.living() == {lasting, ended}  # the server ends the other by itself


async def test_the_primary_kills_what_ends_soon_and_replaces_it(world: World) -> None:
    await world.store.set_idle_entry_ttl(world.name, timedelta(seconds=1))
    ending = await world.put_idle()
    pool = world.pool(max_idle=1)
    await pool.start()
    await world.until_gone(ending)
    await world.until_idle(1)


async def test_a_pool_can_be_resized_and_emptied(world: World) -> None:
    pool = world.pool(max_idle=1)
    await pool.start()
    await world.until_idle(1)
    await pool.resize(4)
    await world.until_idle(4)
    await pool.resize(2)
    await world.until_idle(2)
    await pool.resize(0)
    await world.until_idle(0)
    with pytest.raises(ValueError, match="max_idle"):
        await pool.resize(-1)
    assert (await pool.snapshot()).max_idle == 0


async def test_what_is_idle_can_be_released(world: World) -> None:
    await world.occupy()
    pool = world.pool()
    for _ in range(3):
        await world.put_idle()
    assert await pool.release_all_idle() == 3
    assert await world.living() == set()
    for _ in range(5):
        await world.put_idle()
    assert await pool.release_all_idle_parallel(max_workers=2) == 5
    assert await world.living() == set()
    with pytest.raises(ValueError, match="max_workers"):
        await pool.release_all_idle_parallel(max_workers=0)


async def test_a_pool_that_is_shut_down_leaves_what_is_idle_and_can_start_again(
    world: World,
) -> None:
    pool = world.pool()
    with pytest.raises(PoolNotRunningException, match="NOT_STARTED"):
        await pool.acquire()
    await pool.start()
    await pool.start()
    await world.until_idle(2)
    await pool.shutdown()
    await pool.shutdown(graceful=False)
    with pytest.raises(PoolNotRunningException, match="STOPPED"):
        await pool.acquire()
    idle = await world.idle()
    assert await world.living() == set(idle)
    await pool.start()
    sandbox = await pool.acquire(policy=AcquirePolicy.FAIL_FAST)
    assert sandbox.id == idle[0]
    await sandbox.destroy()


@pytest.mark.parametrize("graceful", [True, False])
async def test_what_is_being_made_during_a_shutdown_is_killed(world: World, graceful: bool) -> None:
    prepared: list[str] = []
    is_shut = False

    async def prepare(sandbox: Sandbox) -> None:
        prepared.append(sandbox.id)

        async def may_go_on() -> bool:
            return is_shut

        await eventually_async(may_go_on)

    async def is_preparing() -> bool:
        return len(prepared) == 2

    pool = world.pool(warmup_sandbox_preparer=prepare, drain_timeout=timedelta(milliseconds=50))
    await pool.start()
    await eventually_async(is_preparing)
    await pool.shutdown(graceful=graceful)
    assert await world.living() == set(prepared)
    is_shut = True
    await world.until_gone(*prepared)
    assert await world.idle() == []


async def test_a_pool_that_fails_is_degraded_until_it_works_again(world: World) -> None:
    is_broken = True

    async def create(context: PooledSandboxCreateContext) -> Sandbox:
        if is_broken:
            raise RuntimeError("no more sandboxes today")
        return await world.create(context)

    async def is_degraded() -> bool:
        return (await pool.snapshot()).state is PoolState.DEGRADED

    async def is_healthy() -> bool:
        return (await pool.snapshot()).state is PoolState.HEALTHY

    pool = world.pool(max_idle=1, sandbox_creator=create, degraded_threshold=2)
    await pool.start()
    await eventually_async(is_degraded)
    snapshot = await pool.snapshot()
    assert snapshot.failure_count >= 2
    assert snapshot.last_error == "no more sandboxes today"
    is_broken = False
    await world.until_idle(1)
    await eventually_async(is_healthy)
    snapshot = await pool.snapshot()
    assert (snapshot.failure_count, snapshot.last_error) == (0, None)


async def test_a_sandbox_is_prepared_before_it_is_idle(world: World) -> None:
    checks: list[str] = []

    async def prepare(sandbox: Sandbox) -> None:
        await sandbox.patch_metadata({"prepared": "yes"})

    async def is_well(sandbox: Sandbox) -> bool:
        checks.append(((await sandbox.get_info()).metadata or {})["prepared"])
        return len(checks) > 1

    pool = world.pool(
        max_idle=1,
        warmup_health_check_initial_delay=timedelta(milliseconds=1),
        warmup_health_check_polling_interval=timedelta(milliseconds=1),
        warmup_sandbox_preparer=prepare,
        warmup_post_prepare_health_check=is_well,
    )
    await pool.start()
    await world.until_idle(1)
    assert checks == ["yes", "yes"]


async def test_a_sandbox_that_cannot_be_prepared_is_killed(world: World) -> None:
    async def prepare(_: Sandbox) -> None:
        raise RuntimeError("cannot")

    async def has_failed() -> bool:
        return (await pool.snapshot()).failure_count >= 1

    pool = world.pool(max_idle=1, warmup_sandbox_preparer=prepare, degraded_threshold=1)
    await pool.start()
    await eventually_async(has_failed)
    await pool.shutdown()
    assert await world.living() == set()


async def test_a_creator_is_told_what_the_sandbox_is_for(world: World) -> None:
    seen: list[PooledSandboxCreateContext] = []

    async def create(context: PooledSandboxCreateContext) -> Sandbox:
        seen.append(context)
        return await world.create(context)

    pool = world.pool(
        max_idle=0, sandbox_creator=create, owner_id="me", idle_timeout=timedelta(hours=1)
    )
    await pool.start()
    sandbox = await pool.acquire(timedelta(minutes=5))
    remaining = (await sandbox.get_info()).expires_at - datetime.now(UTC)  # type: ignore[operator]
    assert remaining <= timedelta(minutes=5)
    await sandbox.destroy()
    await pool.resize(1)
    await world.until_idle(1)
    reasons = [context.reason for context in seen]
    assert reasons == [PooledSandboxCreateReason.DIRECT_CREATE, PooledSandboxCreateReason.WARMUP]
    assert {(c.pool_name, c.owner_id, c.idle_timeout) for c in seen} == {
        (world.name, "me", timedelta(hours=1))
    }


async def test_one_of_two_pools_fills_their_store_and_the_other_takes_over(world: World) -> None:
    made: list[str] = []

    async def create(context: PooledSandboxCreateContext) -> Sandbox:
        made.append(context.owner_id)
        return await world.create(context)

    first = world.pool(max_idle=3, owner_id="first", sandbox_creator=create)
    second = world.pool(max_idle=3, owner_id="second", sandbox_creator=create)
    await first.start()
    await second.start()
    await world.until_idle(3)
    primary, other = (first, second) if made[0] == "first" else (second, first)
    assert len(set(made)) == 1
    sandbox = await other.acquire(policy=AcquirePolicy.FAIL_FAST)
    await sandbox.destroy()
    await world.until_idle(3)
    assert len(set(made)) == 1
    await primary.shutdown()
    sandbox = await other.acquire(policy=AcquirePolicy.FAIL_FAST)
    await sandbox.destroy()
    await world.until_idle(3)
    assert len(set(made)) == 2


async def test_fifty_acquire_at_once_and_each_gets_its_own(world: World) -> None:
    pool = world.pool(max_idle=5)
    await pool.start()
    await world.until_idle(5)
    got: list[str] = []

    async def acquire() -> None:
        sandbox = await pool.acquire(timedelta(minutes=5))
        assert (await sandbox.commands.run("true")).exit_code == 0
        got.append(sandbox.id)
        await sandbox.destroy()

    await run_all([acquire] * 50)
    assert len(set(got)) == 50
    await world.until_idle(5)


async def test_a_pool_refuses_what_cannot_work(world: World) -> None:
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
    await pool.start()
    with pytest.raises(InvalidArgumentException, match="sandbox_timeout"):
        await pool.acquire(timedelta(0))
