# SPDX-License-Identifier: Apache-2.0
"""A server that starts again finds its sandboxes; a crash loses none and leaks none."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opensandbox_server.errors import StartupError
from opensandbox_server.runtimes.base import SandboxSpec, Secrets
from opensandbox_server.store.sqlite import open_sqlite
from opensandbox_server.store.store import Query
from opensandbox_server.store.stored import StoredSandbox
from server.tests.world import ANYBODY, make_runtime, open_world

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
        await world.sandboxes.renew(ANYBODY, made["id"], until)
    async with open_world(tmp_path, runtime) as world:
        info = (await world.client.get(f"/v1/sandboxes/{made['id']}")).json()
        assert datetime.fromisoformat(info["expiresAt"]) == until


async def test_what_expired_meanwhile_is_ended(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        runtime, made = world.runtime, await world.create()
    async with open_sqlite(tmp_path / "opensandbox.db") as store:
        wanted = (await store.query(Query()))[0]
        await store.update(replace(wanted, expires_at=datetime.now(UTC)), wanted.revision, "test")
    async with open_world(tmp_path, runtime) as world:
        assert (await world.client.get(f"/v1/sandboxes/{made['id']}")).status_code == 404
        assert await runtime.instances() == []


async def test_what_the_store_does_not_know_runs_on_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world(tmp_path) as world:
        runtime = world.runtime
    await runtime.start(SandboxSpec("orphan", "any", ("x",)), Secrets("t"))
    async with open_world(tmp_path, runtime) as world:
        assert [instance.id for instance in await runtime.instances()] == ["orphan"]
        assert (await world.client.get("/v1/sandboxes/orphan")).status_code == 404
    assert "sandbox orphan is left as it is" in caplog.text


async def test_a_new_store_beside_sandboxes_is_refused_again_and_again(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        runtime, made = world.runtime, await world.create()
    kept = (tmp_path / "opensandbox.db").rename(tmp_path / "moved.db")
    for _ in range(2):
        with pytest.raises(StartupError, match=f"{made['id']}.*put back theirs"):
            await open_world(tmp_path, runtime).__aenter__()
    kept.rename(tmp_path / "opensandbox.db")
    async with open_world(tmp_path, runtime) as world:
        info = (await world.client.get(f"/v1/sandboxes/{made['id']}")).json()
        assert info["status"]["state"] == "Running"


async def test_an_older_store_of_the_same_directory_loses_no_sandbox(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        runtime, first = world.runtime, await world.create()
    backup = (tmp_path / "opensandbox.db").read_bytes()
    async with open_world(tmp_path, runtime) as world:
        second = await world.create()
    (tmp_path / "opensandbox.db").write_bytes(backup)
    async with open_world(tmp_path, runtime) as world:
        assert (await world.client.get(f"/v1/sandboxes/{first['id']}")).status_code == 200
        assert {each.id for each in await runtime.instances()} == {first["id"], second["id"]}


async def test_a_store_of_a_former_version_is_taken_over(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        runtime, made = world.runtime, await world.create()
    with sqlite3.connect(tmp_path / "opensandbox.db") as db:
        db.execute("DROP TABLE facts")
    db.close()
    (tmp_path / "id").unlink()
    for _ in range(2):
        async with open_world(tmp_path, runtime) as world:
            assert (await world.client.get(f"/v1/sandboxes/{made['id']}")).status_code == 200


async def test_the_store_of_another_data_directory_is_refused(tmp_path: Path) -> None:
    store = {"path": tmp_path / "shared.db"}
    async with open_world(tmp_path / "one", store=store):
        with pytest.raises(StartupError, match="in use by another server"):
            await open_world(tmp_path / "other", store=store).__aenter__()
    with pytest.raises(StartupError, match="belongs to another data directory"):
        await open_world(tmp_path / "other", store=store).__aenter__()


async def test_a_row_that_cannot_be_read_keeps_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world(tmp_path) as world:
        runtime = world.runtime
        made, spoilt = await world.create(), await world.create()
    spoil = "UPDATE sandboxes SET spec = '{\"image\": 1}' WHERE id = ?"
    with sqlite3.connect(tmp_path / "opensandbox.db") as db:
        db.execute(spoil, (spoilt["id"],))
    db.close()
    async with open_world(tmp_path, runtime) as world:
        assert (await world.client.get(f"/v1/sandboxes/{made['id']}")).status_code == 200
        assert (await world.client.get(f"/v1/sandboxes/{spoilt['id']}")).status_code == 404
        assert len(await runtime.instances()) == 2
    assert f"sandbox {spoilt['id']} cannot be had" in caplog.text
    with sqlite3.connect(tmp_path / "opensandbox.db") as db:
        assert db.execute("SELECT count(*) FROM sandboxes").fetchone() == (2,)
    db.close()


@pytest.mark.parametrize("is_repeatable", [True, False])
async def test_a_create_that_a_crash_cut_short_is_kept_only_for_who_will_ask_again(
    tmp_path: Path, is_repeatable: bool
) -> None:
    runtime = make_runtime(tmp_path)
    cut_short = StoredSandbox(
        SandboxSpec("cut-short", "any", ("x",)), datetime.now(UTC), is_repeatable=is_repeatable
    )
    async with open_sqlite(tmp_path / "opensandbox.db") as store:
        await store.insert(cut_short)
    await runtime.start(cut_short.spec, Secrets("t"))
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
