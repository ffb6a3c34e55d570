# SPDX-License-Identifier: Apache-2.0
"""A server that starts again finds its sandboxes; a crash loses none and leaks none."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import SandboxSpec
from opensandbox_server.store import open_store
from opensandbox_server.wanted import Wanted
from server.tests.world import make_runtime, open_world

pytestmark = pytest.mark.anyio


async def test_running_and_paused_sandboxes_are_adopted(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        runtime = world.runtime
        running = await world.create(metadata={"a": "b"}, secureAccess=True)
        paused = await world.create()
        await world.client.post(f"/v1/sandboxes/{paused['id']}/pause")
        routes = world.routes.table
    async with open_world(tmp_path, runtime) as world:
        items = (await world.client.get("/v1/sandboxes")).json()["items"]
        assert [item["id"] for item in items] == [paused["id"], running["id"]]
        assert [item["status"]["state"] for item in items] == ["Paused", "Running"]
        assert items[1]["metadata"] == {"a": "b"}
        assert items[1]["expiresAt"] == running["expiresAt"]
        assert world.routes.table == routes
        path = f"/v1/sandboxes/{running['id']}/endpoints/44772"
        assert (await world.client.get(path)).json() == running["endpoints"]["44772"]
        assert (await world.client.post(f"/v1/sandboxes/{paused['id']}/resume")).status_code == 202
        assert (await world.client.delete(f"/v1/sandboxes/{running['id']}")).status_code == 204


async def test_a_renewal_survives_the_restart(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        runtime, made = world.runtime, await world.create()
        until = datetime.now(UTC) + timedelta(days=2)
        await world.sandboxes.renew(made["id"], until)
    async with open_world(tmp_path, runtime) as world:
        info = (await world.client.get(f"/v1/sandboxes/{made['id']}")).json()
        assert datetime.fromisoformat(info["expiresAt"]) == until


async def test_what_expired_meanwhile_is_ended(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        runtime, made = world.runtime, await world.create()
    async with open_store(tmp_path / "opensandbox.db") as store:
        wanted = (await store.sandboxes())[0]
        await store.update(replace(wanted, expires_at=datetime.now(UTC)), "test")
    async with open_world(tmp_path, runtime) as world:
        assert (await world.client.get(f"/v1/sandboxes/{made['id']}")).status_code == 404
        assert await runtime.instances() == []


async def test_what_nobody_owns_is_removed(tmp_path: Path) -> None:
    runtime = make_runtime(tmp_path)
    await runtime.start(SandboxSpec(id="orphan", image="any", entrypoint=["x"]))
    async with open_world(tmp_path, runtime):
        assert await runtime.instances() == []


@pytest.mark.parametrize("is_repeatable", [True, False])
async def test_a_create_that_a_crash_cut_short_is_kept_only_for_who_will_ask_again(
    tmp_path: Path, is_repeatable: bool
) -> None:
    runtime = make_runtime(tmp_path)
    cut_short = Wanted("cut-short", "any", ("x",), datetime.now(UTC), is_repeatable=is_repeatable)
    async with open_store(tmp_path / "opensandbox.db") as store:
        await store.insert(cut_short)
    await runtime.start(cut_short.spec())
    async with open_world(tmp_path, runtime) as world:
        answer = await world.client.get("/v1/sandboxes/cut-short")
        assert answer.status_code == (200 if is_repeatable else 404)
        assert len(await runtime.instances()) == int(is_repeatable)


async def test_a_sandbox_that_vanished_is_shown_as_failed(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        made = await world.create()
    async with open_world(tmp_path, make_runtime(tmp_path)) as world:
        info = (await world.client.get(f"/v1/sandboxes/{made['id']}")).json()
        assert info["status"]["state"] == "Failed"
        assert "no longer there" in info["status"]["message"]
        assert (await world.client.delete(f"/v1/sandboxes/{made['id']}")).status_code == 204


async def test_many_sandboxes_are_adopted_in_their_order(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        runtime = world.runtime
        made = [await world.create() for _ in range(100)]
    async with open_world(tmp_path, runtime) as world:
        body = (await world.client.get("/v1/sandboxes?pageSize=20&page=5")).json()
        assert [item["id"] for item in body["items"]] == [each["id"] for each in made[19::-1]]


async def test_ending_all_leaves_nothing(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        await asyncio.gather(*(world.create() for _ in range(20)))
        await world.sandboxes.end_all()
        assert await world.runtime.instances() == []
        assert world.routes.table == {}
