# SPDX-License-Identifier: Apache-2.0
"""Two servers over one database when something fails in the middle: nothing leaks or comes back."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from opensandbox.models import CreateSandboxRequest
from opensandbox_server.errors import StoreFault
from opensandbox_server.runtimes.base import Inspection, Instance, RuntimeFault, SandboxSpec
from opensandbox_server.store import store as contract
from opensandbox_server.store.store import UsedKey
from opensandbox_server.store.stored import StoredSandbox
from server.tests.databases import PostgresDatabase
from server.tests.test_two_servers import (
    PATH,
    CountingRuntime,
    database,
    get,
    has_listed,
    listed,
    renew,
    runtime,
    two,
)
from server.tests.world import World, create_request, open_world
from tests.harness.wait import eventually_async

__all__ = ["database", "runtime", "two"]  # fixtures
pytestmark = pytest.mark.anyio
KEY = {"Idempotency-Key": "k"}


def fail_once(
    monkeypatch: pytest.MonkeyPatch, owner: object, verb: str, fault: Exception
) -> list[Exception]:
    """Let the next call of a verb fail; the list is empty once it has."""
    real: Callable[..., Awaitable[Any]] = getattr(owner, verb)
    faults = [fault]

    async def failing(*arguments: object, **named: object) -> Any:
        if faults:
            raise faults.pop()
        return await real(*arguments, **named)

    monkeypatch.setattr(owner, verb, failing)
    return faults


def store_of(world: World) -> Any:
    return world.sandboxes._store


def reconnect(world: World) -> None:
    """Let a server lose its connection: then it reads everything."""
    store_of(world)._listener._db.terminate()


async def is_gone(world: World, sandbox_id: str) -> bool:
    return bool(await get(world, sandbox_id) == 404)


async def test_an_end_that_fails_is_tried_again_after_a_pause(
    two: tuple[World, World], runtime: CountingRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []

    async def stop(_: str) -> None:
        tries.append(time.monotonic())
        raise RuntimeFault("it cannot be stopped")

    sandbox_id = (await two[0].create())["id"]
    monkeypatch.setattr(runtime, "stop", stop)
    await renew(two[0], sandbox_id, 0.3)
    await eventually_async(lambda: len(tries) > 0)
    await asyncio.sleep(2)
    assert len(tries) <= 2
    assert two[0].routes.log.count("running") <= 2, "it is let in again and again"


async def test_a_delete_that_failed_in_the_store_is_finished(
    two: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    sandbox_id = (await one.create())["id"]
    fail_once(monkeypatch, store_of(one), "delete", StoreFault("once"))
    assert (await one.client.delete(f"{PATH}/{sandbox_id}")).status_code == 500
    reconnect(one)
    await eventually_async(lambda: has_listed(other, 0))
    await eventually_async(lambda: is_gone(one, sandbox_id))


async def test_what_is_deleted_while_another_makes_it_leaves_nothing(
    two: tuple[World, World], runtime: CountingRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    runtime.may_start.clear()
    making = asyncio.create_task(one.client.post(PATH, json=create_request()))
    await eventually_async(lambda: has_listed(other, 1))
    (sandbox_id,) = await listed(other)
    real, may_delete = store_of(other).delete, asyncio.Event()

    async def delete(*arguments: object, **named: object) -> None:
        await may_delete.wait()  # a slow database
        await real(*arguments, **named)

    monkeypatch.setattr(store_of(other), "delete", delete)
    deleting = asyncio.create_task(other.client.delete(f"{PATH}/{sandbox_id}"))
    await eventually_async(lambda: sandbox_id in runtime.stopped)
    runtime.may_start.set()
    await making
    may_delete.set()
    assert (await deleting).status_code == 204
    await eventually_async(lambda: has_listed(one, 0))
    await eventually_async(lambda: nothing_runs(runtime))


async def nothing_runs(runtime: CountingRuntime) -> bool:
    return not await runtime.instances()


async def test_an_undo_that_fails_is_tried_again_though_the_row_is_gone(
    two: tuple[World, World], runtime: CountingRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    runtime.may_start.clear()
    making = asyncio.create_task(one.client.post(PATH, json=create_request()))
    await eventually_async(lambda: has_listed(other, 1))
    (sandbox_id,) = await listed(other)
    assert (await other.client.delete(f"{PATH}/{sandbox_id}")).status_code == 204
    failed = fail_once(monkeypatch, runtime, "stop", RuntimeFault("busy"))
    runtime.may_start.set()
    await making
    assert not failed
    await eventually_async(lambda: nothing_runs(runtime))


async def test_the_key_of_a_create_that_was_cut_off_is_free_again(
    two: tuple[World, World], database: PostgresDatabase
) -> None:
    body = create_request()
    text = CreateSandboxRequest.model_validate(body).model_dump_json()
    began = datetime.now(UTC) - timedelta(seconds=contract.START_SECONDS + 1)
    async with database.open() as killed:
        await killed.insert(
            StoredSandbox(SandboxSpec("half", "any", ("x",)), began, is_repeatable=True),
            UsedKey("", "k", hashlib.sha256(text.encode()).hexdigest(), "half"),
        )

    async def is_made() -> bool:
        answer = await two[0].client.post(PATH, json=body, headers=KEY)
        return bool(answer.status_code == 202)

    await eventually_async(is_made)


async def test_the_key_of_a_create_that_failed_is_free_after_an_outage(
    two: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    fail_once(monkeypatch, store_of(one), "update", StoreFault("once"))
    fail_once(monkeypatch, store_of(one), "delete", StoreFault("once"))
    assert (await one.client.post(PATH, json=create_request(), headers=KEY)).status_code == 500
    reconnect(one)
    await eventually_async(lambda: has_listed(other, 0))
    answer = await other.client.post(PATH, json=create_request(), headers=KEY)
    assert answer.status_code == 202


async def test_a_runtime_that_fails_hides_nothing_of_the_others(
    two: tuple[World, World], runtime: CountingRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    moved, still = [(await one.create())["id"] for _ in range(2)]
    await listed(other)

    async def fault(*_: object) -> Any:
        raise RuntimeFault("it cannot be read")

    real: tuple[Callable[[str], Awaitable[Inspection]], Callable[[], Awaitable[list[Instance]]]]
    real = runtime.inspect, runtime.instances  # type: ignore[assignment]
    monkeypatch.setattr(runtime, "inspect", fault)
    monkeypatch.setattr(runtime, "instances", fault)
    assert (await one.client.post(f"{PATH}/{moved}/pause")).status_code == 202
    assert await listed(other) == [still, moved]
    assert (await get(other, still))["status"]["state"] == "Running"
    assert (await other.client.delete(f"{PATH}/{still}")).status_code == 204
    monkeypatch.setattr(runtime, "inspect", real[0])
    monkeypatch.setattr(runtime, "instances", real[1])

    async def is_paused() -> bool:
        return bool((await get(other, moved))["status"]["state"] == "Paused")

    await eventually_async(is_paused)


async def test_what_is_made_while_all_is_read_keeps_its_route(
    two: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    await other.create()
    await listed(one)
    listener = store_of(one)._listener
    real, has_read, may_go = listener.read, asyncio.Event(), asyncio.Event()

    async def read(_: str | None) -> Any:
        everything = await real(None)
        has_read.set()
        await may_go.wait()
        return everything

    monkeypatch.setattr(listener, "read", read)
    looking = asyncio.create_task(one.client.get(PATH))
    await has_read.wait()
    made = await one.create()
    monkeypatch.setattr(listener, "read", real)
    one.routes.log.clear()
    may_go.set()
    await looking
    assert len(await listed(one)) == 2
    assert "gone" not in one.routes.log
    assert made["id"] in one.routes.table


async def test_a_row_that_cannot_be_read_closes_no_route(
    two: tuple[World, World], database: PostgresDatabase
) -> None:
    one, other = two
    sandbox_id = (await one.create())["id"]
    await listed(other)
    database.spoil(sandbox_id)
    reconnect(other)

    async def has_read_all() -> bool:
        return bool((await other.client.get(PATH)).status_code == 200)

    await eventually_async(has_read_all)
    assert sandbox_id in other.routes.table


async def test_a_time_beyond_the_calendar_is_refused_and_nothing_is_down(
    two: tuple[World, World],
) -> None:
    sandbox_id = (await two[0].create())["id"]
    for at in ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"):
        path = f"{PATH}/{sandbox_id}/renew-expiration"
        answer = await two[0].client.post(path, json={"expiresAt": at})
        assert answer.status_code == 400, answer.text
    assert (await two[0].client.get("/ready")).status_code == 200


async def test_a_repeat_is_never_listed_beside_what_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_world(tmp_path / "data") as world:
        await world.client.post(PATH, json=create_request(), headers=KEY)
        real, may_insert = store_of(world).insert, asyncio.Event()

        async def insert(*arguments: object, **named: object) -> None:
            await may_insert.wait()
            await real(*arguments, **named)

        monkeypatch.setattr(store_of(world), "insert", insert)
        again = asyncio.create_task(world.client.post(PATH, json=create_request(), headers=KEY))
        await eventually_async(lambda: len(world.sandboxes._all) == 2)
        assert len(await listed(world)) == 1
        may_insert.set()
        assert (await again).status_code == 202
