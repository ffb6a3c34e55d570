# SPDX-License-Identifier: Apache-2.0
"""Two servers over one database and one runtime: whatever either does, both say the same."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from opensandbox_server.runtimes.base import (
    Instance,
    RuntimeHome,
    SandboxSpec,
    Secrets,
    SnapshotRef,
)
from opensandbox_server.runtimes.fake import FakeRuntime
from opensandbox_server.store import store as contract
from opensandbox_server.store.stored import StoredSandbox
from server.tests.databases import PostgresDatabase
from server.tests.world import World, create_request, open_world
from tests.harness.postgres import PostgresServer
from tests.harness.wait import eventually_async

pytestmark = pytest.mark.anyio
PATH = "/v1/sandboxes"


class CountingRuntime(FakeRuntime):
    """One home for the instances of both servers. Counts ends; a start may be made to wait."""

    def __init__(self, home: RuntimeHome) -> None:
        super().__init__(home)
        self.stopped: list[str] = []
        self.stopping: list[str] = []
        self.stopped_by_two: list[str] = []
        self.may_start = asyncio.Event()
        self.may_start.set()

    async def start(
        self, spec: SandboxSpec, secrets: Secrets, source: SnapshotRef | None = None
    ) -> Instance:
        await self.may_start.wait()
        return await super().start(spec, secrets, source)

    async def stop(self, instance_id: str) -> None:
        if instance_id in self.stopping:
            self.stopped_by_two.append(instance_id)
        self.stopping.append(instance_id)
        await asyncio.sleep(0.1)
        await super().stop(instance_id)
        self.stopping.remove(instance_id)
        self.stopped.append(instance_id)


@pytest.fixture
def runtime(tmp_path: Path) -> CountingRuntime:
    (tmp_path / "run").mkdir()
    return CountingRuntime(RuntimeHome(tmp_path, tmp_path / "run"))


@pytest.fixture
def database(postgres: PostgresServer) -> PostgresDatabase:
    return PostgresDatabase(postgres.new_schema())


@pytest.fixture
async def two(
    tmp_path: Path, runtime: CountingRuntime, database: PostgresDatabase
) -> AsyncIterator[tuple[World, World]]:
    """Have two servers."""
    async with contextlib.AsyncExitStack() as opened:
        one, other = [
            await opened.enter_async_context(open_world(tmp_path, runtime, shared=database.open()))
            for _ in range(2)
        ]
        yield one, other


async def get(world: World, sandbox_id: str) -> Any:
    answer = await world.client.get(f"{PATH}/{sandbox_id}")
    return answer.json() if answer.status_code == 200 else answer.status_code


async def listed(world: World) -> list[str]:
    answer = await world.client.get(PATH, params={"pageSize": 200})
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["items"]]


async def renew(world: World, sandbox_id: str, seconds: float) -> None:
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    body = {"expiresAt": at.isoformat()}
    answer = await world.client.post(f"{PATH}/{sandbox_id}/renew-expiration", json=body)
    assert answer.status_code == 200, answer.text


async def test_what_one_makes_the_other_has_at_once(two: tuple[World, World]) -> None:
    one, other = two
    made = [await (one if number % 2 else other).create() for number in range(6)]
    ids = [each["id"] for each in reversed(made)]
    assert await listed(one) == await listed(other) == ids
    for sandbox_id in ids:
        info = await get(one, sandbox_id)
        assert info["status"]["state"] == "Running"
        assert await get(other, sandbox_id) == info
        assert other.routes.table[sandbox_id] == one.routes.table[sandbox_id]


async def test_what_one_ends_is_gone_for_the_other(
    two: tuple[World, World], runtime: CountingRuntime
) -> None:
    one, other = two
    sandbox_id = (await one.create())["id"]
    assert (await other.client.delete(f"{PATH}/{sandbox_id}")).status_code == 204
    assert await get(one, sandbox_id) == 404
    assert await listed(one) == []
    assert sandbox_id not in one.routes.table
    assert await runtime.instances() == []


async def test_an_end_that_both_are_asked_for_is_no_fault(two: tuple[World, World]) -> None:
    for _ in range(5):
        sandbox_id = (await two[0].create())["id"]
        answers = await asyncio.gather(
            *(world.client.delete(f"{PATH}/{sandbox_id}") for world in two)
        )
        assert {answer.status_code for answer in answers} <= {204, 404}
        assert [await listed(world) for world in two] == [[], []]


async def test_both_show_a_pause_and_either_undoes_it(two: tuple[World, World]) -> None:
    one, other = two
    sandbox_id = (await one.create())["id"]
    for here, there in ((one, other), (other, one)):
        assert (await here.client.post(f"{PATH}/{sandbox_id}/pause")).status_code == 202
        assert (await get(there, sandbox_id))["status"]["state"] == "Paused"
        assert there.routes.table[sandbox_id].is_paused
        assert (await there.client.post(f"{PATH}/{sandbox_id}/resume")).status_code == 202
        assert (await get(here, sandbox_id))["status"]["state"] == "Running"
        assert not here.routes.table[sandbox_id].is_paused


async def test_tags_that_both_set_are_all_there(two: tuple[World, World]) -> None:
    sandbox_id = (await two[0].create())["id"]

    async def tag(number: int) -> None:
        path, tags = f"{PATH}/{sandbox_id}/metadata", {f"n{number}": "x"}
        answer = await two[number % 2].client.patch(path, json=tags)
        assert answer.status_code == 200, answer.text

    await asyncio.gather(*(tag(number) for number in range(16)))
    for world in two:
        assert len((await get(world, sandbox_id))["metadata"]) == 16


async def test_an_end_of_time_is_brought_about_by_one_of_them(
    two: tuple[World, World], runtime: CountingRuntime
) -> None:
    ids = [(await world.create())["id"] for world in two for _ in range(4)]
    for number, sandbox_id in enumerate(ids):
        await renew(two[number % 2], sandbox_id, 0.4)

    async def is_over() -> bool:
        return not await listed(two[0]) and not await listed(two[1])

    await eventually_async(is_over)
    assert set(runtime.stopped) == set(ids)
    assert runtime.stopped_by_two == []
    assert two[0].routes.table == two[1].routes.table == {}


async def test_a_longer_life_counts_for_both(
    two: tuple[World, World], runtime: CountingRuntime
) -> None:
    one, other = two
    sandbox_id = (await one.create())["id"]
    await renew(one, sandbox_id, 0.6)
    await listed(other)  # which plans its end, too
    await renew(other, sandbox_id, 600)
    await asyncio.sleep(1)
    expiry = (await get(one, sandbox_id))["expiresAt"]
    assert expiry == (await get(other, sandbox_id))["expiresAt"]
    assert runtime.stopped == []


async def test_one_key_makes_one_sandbox(
    two: tuple[World, World], runtime: CountingRuntime
) -> None:
    headers, bodies = {"Idempotency-Key": "k"}, create_request()
    runtime.may_start.clear()
    asked = [
        asyncio.create_task(world.client.post(PATH, json=bodies, headers=headers))
        for world in (*two, *two)
    ]
    await eventually_async(lambda: any_pending(two))
    await asyncio.sleep(0.2)
    runtime.may_start.set()
    answers = await asyncio.gather(*asked)
    assert [answer.status_code for answer in answers] == [202] * 4
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len({answer.json()["status"]["state"] for answer in answers}) == 1
    assert len(await runtime.instances()) == 1
    differs = create_request(timeout=601)
    for world in two:
        answer = await world.client.post(PATH, json=differs, headers=headers)
        assert answer.status_code == 409


async def any_pending(two: tuple[World, World]) -> bool:
    return any([await listed(world) for world in two])


async def test_a_key_whose_create_fails_elsewhere_is_free_again(
    two: tuple[World, World], runtime: CountingRuntime
) -> None:
    one, other = two
    headers, broken = {"Idempotency-Key": "k"}, create_request(image={"uri": "broken"})
    runtime.may_start.clear()
    first = asyncio.create_task(one.client.post(PATH, json=broken, headers=headers))
    await eventually_async(lambda: any_pending(two))
    second = asyncio.create_task(other.client.post(PATH, json=broken, headers=headers))
    await asyncio.sleep(0.2)
    runtime.may_start.set()
    assert (await first).status_code == 500
    assert (await second).status_code == 409
    assert [await listed(world) for world in two] == [[], []]
    answer = await other.client.post(PATH, json=create_request(), headers=headers)
    assert answer.status_code == 202


async def test_both_see_an_entrypoint_end_and_it_is_noted_once(
    two: tuple[World, World], runtime: CountingRuntime
) -> None:
    sandbox_id = (await two[0].create())["id"]
    runtime.exit(sandbox_id, 3)

    async def has_failed() -> bool:
        return all([(await get(each, sandbox_id))["status"]["state"] == "Failed" for each in two])

    await eventually_async(has_failed)
    for world in two:
        assert sandbox_id not in world.routes.table
        answer = await world.client.get(f"{PATH}/{sandbox_id}/diagnostics/events?scope=all")
        assert answer.json()["content"].count("Exited") == 1


async def test_a_server_that_comes_later_leaves_what_is_being_made(
    tmp_path: Path, runtime: CountingRuntime, database: PostgresDatabase
) -> None:
    async with open_world(tmp_path, runtime, shared=database.open()) as one:
        done = await one.create()
        runtime.may_start.clear()
        making = asyncio.create_task(one.create())
        await eventually_async(lambda: has_listed(one, 2))
        async with open_world(tmp_path, runtime, shared=database.open()) as late:
            assert await listed(late) == await listed(one)
            assert (await get(late, done["id"]))["status"]["state"] == "Running"
            runtime.may_start.set()
            made = await making
            assert (await get(late, made["id"]))["status"]["state"] == "Running"
            assert late.routes.table == one.routes.table
        assert runtime.stopped == []
        assert len(await listed(one)) == 2


async def has_listed(world: World, count: int) -> bool:
    return len(await listed(world)) == count


async def test_a_create_that_was_cut_off_is_ended_by_whoever_is_left(
    two: tuple[World, World], database: PostgresDatabase, runtime: CountingRuntime
) -> None:
    spec = SandboxSpec("half-made", "any", ("x",))
    await runtime.start(spec, Secrets("t"))
    began = datetime.now(UTC) - timedelta(seconds=contract.START_SECONDS + 1)
    async with database.open() as killed:
        await killed.insert(StoredSandbox(spec, created_at=began))
        await killed.insert(
            StoredSandbox(replace(spec, id="being-made"), created_at=datetime.now(UTC))
        )
    await eventually_async(lambda: has_listed(two[0], 1))
    await eventually_async(lambda: has_listed(two[1], 1))
    assert set(runtime.stopped) == {"half-made"}
    assert (await get(two[0], "being-made"))["status"]["state"] == "Pending"


async def test_both_go_on_after_the_database_was_away(
    two: tuple[World, World], postgres: PostgresServer
) -> None:
    sandbox_id = (await two[0].create())["id"]
    await asyncio.to_thread(postgres.stop)
    for world in two:
        answer = await world.client.get(PATH)
        assert answer.status_code == 500, answer.text
        assert "store" in answer.text.lower()
        answer = await world.client.post(PATH, json=create_request())
        assert answer.status_code == 500, answer.text
    postgres.start()  # not on a thread: it ends with whoever started it

    async def is_ready() -> bool:
        answers = [await world.client.get("/ready") for world in two]
        return all(answer.status_code == 200 for answer in answers)

    await eventually_async(is_ready)
    another = (await two[1].create())["id"]
    assert [await listed(world) for world in two] == [[another, sandbox_id]] * 2


async def test_many_of_everything_at_once_leaves_both_with_the_same(
    two: tuple[World, World], runtime: CountingRuntime
) -> None:
    chance = random.Random(7)
    kept: set[str] = set()

    async def use(number: int) -> None:
        here, there = chance.sample(two, 2)
        sandbox_id = (await here.create())["id"]
        if number % 3 == 0:
            assert (await there.client.post(f"{PATH}/{sandbox_id}/pause")).status_code == 202
        if number % 2:
            assert (await there.client.delete(f"{PATH}/{sandbox_id}")).status_code == 204
            assert await get(here, sandbox_id) == 404
        else:
            kept.add(sandbox_id)

    await asyncio.gather(*(use(number) for number in range(40)))
    for world in two:
        assert set(await listed(world)) == set(world.routes.table) == kept
    one, other = two
    assert [await get(one, each) for each in kept] == [await get(other, each) for each in kept]
    assert {instance.id for instance in await runtime.instances()} == kept
    paused = [
        {name for name, route in each.routes.table.items() if route.is_paused} for each in two
    ]
    assert paused[0] == paused[1]
