# SPDX-License-Identifier: Apache-2.0
"""The rest of the lifecycle API, detail by detail."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from opensandbox.models import CreateSandboxRequest
from opensandbox_server.errors import SandboxNotFound
from opensandbox_server.sandboxes.principal import Principal
from opensandbox_server.store.sqlite import SqliteStore
from server.tests.world import ANYBODY, World, create_request, open_world

pytestmark = pytest.mark.anyio


A_MOMENT = 0.001
"""Between two looks at something that happens by itself; the test's timeout bounds the looking."""


async def info_of(world: World, sandbox_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await world.client.get(f"/v1/sandboxes/{sandbox_id}")).json()
    return found


async def state(world: World, sandbox_id: str) -> str:
    found: str = (await info_of(world, sandbox_id))["status"]["state"]
    return found


class TestList:
    """GET /sandboxes."""

    async def test_an_empty_list_has_all_its_keys(self, world: World) -> None:
        body = (await world.client.get("/v1/sandboxes")).json()
        page = {"page": 1, "pageSize": 20, "totalItems": 0, "totalPages": 0, "hasNextPage": False}
        assert body == {"items": [], "pagination": page}

    async def test_pages_are_cut_newest_first(self, world: World) -> None:
        ids = [(await world.create())["id"] for _ in range(5)]
        body = (await world.client.get("/sandboxes?page=2&pageSize=2")).json()
        assert [item["id"] for item in body["items"]] == [ids[2], ids[1]]
        page = {"page": 2, "pageSize": 2, "totalItems": 5, "totalPages": 3, "hasNextPage": True}
        assert body["pagination"] == page
        past = (await world.client.get("/sandboxes?page=9&pageSize=2")).json()
        assert (past["items"], past["pagination"]["hasNextPage"]) == ([], False)

    @pytest.mark.parametrize("query", ["page=0", "pageSize=0", "pageSize=201", "page=x"])
    async def test_a_page_that_cannot_be_is_422(self, world: World, query: str) -> None:
        answer = await world.client.get(f"/v1/sandboxes?{query}")
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"][0] == "query"

    async def test_states_are_ored_whatever_their_case(self, world: World) -> None:
        running, paused = (await world.create())["id"], (await world.create())["id"]
        await world.client.post(f"/v1/sandboxes/{paused}/pause")

        async def ids(query: str) -> set[str]:
            body = (await world.client.get(f"/v1/sandboxes?{query}")).json()
            return {item["id"] for item in body["items"]}

        assert await ids("state=running") == {running}
        assert await ids("state=PAUSED") == {paused}
        assert await ids("state=Paused&state=Running") == {running, paused}
        assert await ids("state=Failed") == set()

    @pytest.mark.parametrize("is_encoded_twice", [True, False])
    async def test_metadata_is_anded_and_decoded_as_each_client_encodes_it(
        self, world: World, is_encoded_twice: bool
    ) -> None:
        both = (await world.create(metadata={"example.com/a": "1", "b": "2"}))["id"]
        await world.create(metadata={"example.com/a": "1"})
        pairs = {"example.com/a": "1", "b": "2"}
        inner = (
            urlencode(pairs) if is_encoded_twice else "&".join(f"{k}={v}" for k, v in pairs.items())
        )
        body = (await world.client.get(f"/v1/sandboxes?metadata={quote(inner, safe='')}")).json()
        assert [item["id"] for item in body["items"]] == [both]

    async def test_a_malformed_filter_is_400(self, world: World) -> None:
        answer = await world.client.get("/v1/sandboxes?metadata=nonsense")
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_METADATA_FORMAT")


class TestOne:
    """GET, PATCH and DELETE of one sandbox."""

    async def test_get_shows_what_was_asked_for(self, world: World) -> None:
        made = await world.create(
            image={"uri": "i:1", "auth": {"username": "u", "password": "p"}}, metadata={"a": "b"}
        )
        body = (await world.client.get(f"/v1/sandboxes/{made['id']}")).json()
        assert body["image"] == {"uri": "i:1"}
        assert body["metadata"] == {"a": "b"}
        assert body["createdAt"] == made["createdAt"]
        assert body["expiresAt"] == made["expiresAt"]

    async def test_patch_sets_and_removes_tags(self, world: World) -> None:
        made = await world.create(metadata={"a": "1", "b": "2"})
        path = f"/v1/sandboxes/{made['id']}/metadata"
        answer = await world.client.patch(path, json={"a": None, "c": "3"})
        assert (answer.status_code, answer.json()["metadata"]) == (200, {"b": "2", "c": "3"})
        refused = await world.client.patch(path, json={"opensandbox.io/x": "y"})
        assert (refused.status_code, refused.json()["code"]) == (
            400,
            "SANDBOX::INVALID_METADATA_LABEL",
        )
        emptied = await world.client.patch(path, json={"b": None, "c": None})
        assert "metadata" not in emptied.json()

    async def test_after_delete_nothing_is_left(self, world: World) -> None:
        made = await world.create()
        answer = await world.client.delete(f"/v1/sandboxes/{made['id']}")
        assert (answer.status_code, answer.content) == (204, b"")
        assert await world.runtime.instances() == []
        assert world.routes.table == {}
        assert (await world.client.delete(f"/v1/sandboxes/{made['id']}")).status_code == 404

    async def test_the_way_in_is_closed_before_the_sandbox_ends(self, world: World) -> None:
        made = await world.create()
        await world.client.delete(f"/v1/sandboxes/{made['id']}")
        assert world.routes.log == ["running", "gone"]


class TestPause:
    """Pause and resume."""

    async def test_pause_freezes_and_resume_thaws(self, world: World) -> None:
        made = await world.create()
        path = f"/v1/sandboxes/{made['id']}"
        answer = await world.client.post(f"{path}/pause")
        assert (answer.status_code, answer.content) == (202, b"")
        assert await state(world, made["id"]) == "Paused"
        assert world.routes.table[made["id"]].is_paused
        answer = await world.client.post(f"{path}/resume")
        assert (answer.status_code, answer.content) == (202, b"")
        assert await state(world, made["id"]) == "Running"
        assert not world.routes.table[made["id"]].is_paused

    async def test_only_what_runs_is_paused_and_only_what_is_paused_resumed(
        self, world: World
    ) -> None:
        made = await world.create()
        path = f"/v1/sandboxes/{made['id']}"
        answer = await world.client.post(f"{path}/resume")
        assert (answer.status_code, answer.json()["code"]) == (409, "FAKE::SANDBOX_NOT_PAUSED")
        await world.client.post(f"{path}/pause")
        answer = await world.client.post(f"{path}/pause")
        assert (answer.status_code, answer.json()["code"]) == (409, "FAKE::SANDBOX_NOT_RUNNING")

    async def test_a_pause_that_fails_leaves_it_running(self, world: World) -> None:
        made = await world.create()
        world.routes.is_closed = True
        answer = await world.client.post(f"/v1/sandboxes/{made['id']}/pause")
        assert answer.status_code == 503
        world.routes.is_closed = False
        assert await state(world, made["id"]) == "Running"
        instances = await world.runtime.instances()
        assert instances[0].state.value == "running"

    async def test_a_paused_sandbox_can_be_deleted(self, world: World) -> None:
        made = await world.create()
        await world.client.post(f"/v1/sandboxes/{made['id']}/pause")
        assert (await world.client.delete(f"/v1/sandboxes/{made['id']}")).status_code == 204


class TestRenew:
    """POST /sandboxes/{id}/renew-expiration."""

    @pytest.mark.parametrize("minutes", [1, 600])
    async def test_the_end_may_come_sooner_or_later(self, world: World, minutes: int) -> None:
        made = await world.create()
        wanted = datetime.now(UTC) + timedelta(minutes=minutes)
        path = f"/v1/sandboxes/{made['id']}/renew-expiration"
        answer = await world.client.post(path, json={"expiresAt": wanted.isoformat()})
        assert answer.status_code == 200
        assert datetime.fromisoformat(answer.json()["expiresAt"]) == wanted
        info = (await world.client.get(f"/v1/sandboxes/{made['id']}")).json()
        assert datetime.fromisoformat(info["expiresAt"]) == wanted

    async def test_a_time_without_zone_is_utc(self, world: World) -> None:
        made = await world.create()
        path = f"/v1/sandboxes/{made['id']}/renew-expiration"
        answer = await world.client.post(path, json={"expiresAt": "2199-01-01T00:00:00"})
        assert datetime.fromisoformat(answer.json()["expiresAt"]) == datetime(
            2199, 1, 1, tzinfo=UTC
        )

    async def test_the_past_is_refused(self, world: World) -> None:
        made = await world.create()
        path = f"/v1/sandboxes/{made['id']}/renew-expiration"
        answer = await world.client.post(path, json={"expiresAt": "2020-01-01T00:00:00Z"})
        assert (answer.status_code, answer.json()["code"]) == (400, "FAKE::INVALID_EXPIRATION")

    async def test_what_never_ends_cannot_be_renewed(self, world: World) -> None:
        made = await world.create(timeout=None)
        path = f"/v1/sandboxes/{made['id']}/renew-expiration"
        answer = await world.client.post(path, json={"expiresAt": "2199-01-01T00:00:00Z"})
        assert (answer.status_code, answer.json()["code"]) == (409, "FAKE::INVALID_EXPIRATION")

    @pytest.mark.parametrize(
        "body", [{}, {"expiresAt": "soon"}, {"expiresAt": 1}, {"expiresAt": None}]
    )
    async def test_what_is_no_time_is_422(self, world: World, body: dict[str, Any]) -> None:
        made = await world.create()
        path = f"/v1/sandboxes/{made['id']}/renew-expiration"
        assert (await world.client.post(path, json=body)).status_code == 422

    async def test_at_its_time_a_sandbox_is_gone(self, world: World) -> None:
        made = await world.create()
        at_once = datetime.now(UTC) + timedelta(milliseconds=20)
        await world.sandboxes.renew(ANYBODY, made["id"], at_once)
        while (await world.client.get(f"/v1/sandboxes/{made['id']}")).status_code != 404:
            await asyncio.sleep(A_MOMENT)
        assert await world.runtime.instances() == []

    async def test_traffic_renews_what_asked_for_it(self, tmp_path: Path) -> None:
        async with open_world(tmp_path, renew_intent={"enabled": True}) as world:
            asked = await world.create(
                timeout=60, extensions={"access.renew.extend.seconds": "300"}
            )
            other = await world.create(timeout=60)
            world.sandboxes.saw_traffic({asked["id"]: 1, other["id"]: 1, "nobody": 1})
            before = asked["expiresAt"]
            while (await info_of(world, asked["id"]))["expiresAt"] == before:
                await asyncio.sleep(A_MOMENT)
            assert (await info_of(world, other["id"]))["expiresAt"] == other["expiresAt"]


class TestEndpoints:
    """GET /sandboxes/{id}/endpoints/{port}."""

    @pytest.mark.parametrize(
        ("prefix", "query"),
        [("", ""), ("/v1", "?use_server_proxy=true"), ("/v1", "?use_server_proxy=false")],
    )
    async def test_the_way_back_is_the_way_the_client_came(
        self, world: World, prefix: str, query: str
    ) -> None:
        made = await world.create()
        path = f"{prefix}/sandboxes/{made['id']}/endpoints/3000{query}"
        answer = await world.client.get(path, headers={"Host": "elsewhere:9"})
        assert answer.json() == {
            "endpoint": f"elsewhere:9{prefix}/sandboxes/{made['id']}/proxy/3000"
        }

    async def test_a_signed_route_needs_no_other_proof(self, world: World) -> None:
        made = await world.create(secureAccess=True)
        path = f"/v1/sandboxes/{made['id']}/endpoints/3000?expires=4102444800"
        body = (await world.client.get(path)).json()
        assert body["endpoint"].startswith(f"server:8080/{made['id']}/3000/")
        assert "headers" not in body

    @pytest.mark.parametrize(
        ("tail", "code"),
        [
            ("0", "FAKE::INVALID_PORT"),
            ("65536", "FAKE::INVALID_PORT"),
            ("80?expires=1", "SANDBOX::INVALID_PARAMETER"),
            ("80?expires=4102444800&use_server_proxy=true", "SANDBOX::INVALID_PARAMETER"),
        ],
    )
    async def test_what_cannot_be_reached_is_400(self, world: World, tail: str, code: str) -> None:
        made = await world.create()
        answer = await world.client.get(f"/v1/sandboxes/{made['id']}/endpoints/{tail}")
        assert (answer.status_code, answer.json()["code"]) == (400, code)


class TestExit:
    """An entrypoint that ends by itself."""

    @pytest.mark.parametrize(
        ("status", "seen"), [(0, "Terminated"), (3, "Failed"), (None, "Failed")]
    )
    async def test_its_sandbox_shows_it_until_it_is_deleted(
        self, world: World, status: int | None, seen: str
    ) -> None:
        made = await world.create()
        world.runtime.exit(made["id"], status)
        while await state(world, made["id"]) != seen or made["id"] in world.routes.table:
            await asyncio.sleep(A_MOMENT)
        assert (await world.client.post(f"/v1/sandboxes/{made['id']}/pause")).status_code == 409
        assert (await world.client.delete(f"/v1/sandboxes/{made['id']}")).status_code == 204


class TestDiagnostics:
    """Logs and events."""

    async def test_events_tell_the_story(self, world: World) -> None:
        made = await world.create()
        await world.client.post(f"/v1/sandboxes/{made['id']}/pause")
        path = f"/v1/sandboxes/{made['id']}/diagnostics"
        body = (await world.client.get(f"{path}/events?scope=runtime")).json()
        assert (body["kind"], body["scope"], body["delivery"]) == ("events", "runtime", "inline")
        assert [line.split()[1] for line in body["content"].splitlines()] == [
            "Created",
            "Started",
            "Paused",
        ]
        assert body["contentLength"] == len(body["content"].encode())
        old = await world.client.get(f"{path}/events?limit=1")
        assert old.headers["deprecation"] == "true"
        assert old.headers["content-type"].startswith("text/plain")
        assert len(old.text.splitlines()) == 1

    async def test_logs_come_inline_or_as_text(self, world: World) -> None:
        made = await world.create()
        path = f"/v1/sandboxes/{made['id']}/diagnostics"
        body = (await world.client.get(f"{path}/logs?scope=container")).json()
        assert (body["sandboxId"], body["truncated"]) == (made["id"], False)
        assert (await world.client.get(f"{path}/logs?tail=5&since=10m")).headers[
            "deprecation"
        ] == "true"
        assert (await world.client.get(f"{path}/logs?since=later")).status_code == 422

    async def test_logs_of_less_than_the_whole_life_are_refused(self, world: World) -> None:
        made = await world.create()
        path = f"/v1/sandboxes/{made['id']}/diagnostics/logs"
        for whole in (f"{10**30}d", "1h"):
            assert (await world.client.get(f"{path}?since={whole}")).status_code == 200
        refused = await world.client.get(f"{path}?since=0s")
        assert (refused.status_code, refused.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER")
        assert "tail" in refused.json()["message"]

    async def test_tokens_and_environment_stay_out(self, world: World) -> None:
        made = await world.create(env={"PASSWORD": "hunter2"}, secureAccess=True)
        route = world.routes.table[made["id"]]
        for page in ("inspect", "summary"):
            text = (await world.client.get(f"/v1/sandboxes/{made['id']}/diagnostics/{page}")).text
            assert made["id"] in text
            for secret in ("hunter2", route.execd_token, route.secure_token):
                assert secret not in text

    async def test_another_scope_is_400(self, world: World) -> None:
        made = await world.create()
        answer = await world.client.get(f"/v1/sandboxes/{made['id']}/diagnostics/logs?scope=moon")
        assert (answer.status_code, answer.json()["code"]) == (400, "DIAGNOSTICS_SCOPE_UNSUPPORTED")

    async def test_logs_of_a_sandbox_that_is_being_deleted_are_not_found(
        self, world: World
    ) -> None:
        made, free, store = await world.create(), threading.Event(), world.sandboxes._store
        assert isinstance(store, SqliteStore)
        busy = asyncio.create_task(store._do(lambda _: free.wait(60)))
        await asyncio.sleep(0)  # it is in the queue of the store before the delete
        deleting = asyncio.create_task(world.client.delete(f"/v1/sandboxes/{made['id']}"))
        while await world.runtime.instances():
            await asyncio.sleep(A_MOMENT)
        for what in ("logs", "inspect", "summary"):
            answer = await world.client.get(f"/v1/sandboxes/{made['id']}/diagnostics/{what}")
            assert (answer.status_code, answer.json()["code"]) == (404, "FAKE::SANDBOX_NOT_FOUND")
        free.set()
        await busy
        assert (await deleting).status_code == 204


class TestOwners:
    """What belongs to somebody else is not there."""

    async def test_every_verb_for_clients_sees_only_what_is_theirs(self, world: World) -> None:
        made, stranger = await world.create(), Principal("somebody else")
        name, sandboxes = made["id"], world.sandboxes
        later = datetime.now(UTC) + timedelta(hours=1)
        for asked in (
            sandboxes.patch_metadata(stranger, name, {}),
            sandboxes.delete(stranger, name),
            sandboxes.renew(stranger, name, later),
            sandboxes.pause(stranger, name),
            sandboxes.resume(stranger, name),
            sandboxes.inspect(stranger, name),
            sandboxes.events(stranger, name, 1),
        ):
            with pytest.raises(SandboxNotFound):
                await asked
        with pytest.raises(SandboxNotFound):
            await sandboxes.get(stranger, name)
        assert await sandboxes.list(stranger, (), {}) == []
        assert await state(world, name) == "Running"

    async def test_owners_have_idempotency_keys_of_their_own(self, world: World) -> None:
        request = CreateSandboxRequest.model_validate(create_request())
        mine = await world.sandboxes.create(Principal("me"), request, "key")
        theirs = await world.sandboxes.create(Principal("you"), request, "key")
        again = await world.sandboxes.create(Principal("me"), request, "key")
        assert (again is mine, theirs is mine) == (True, False)
        assert (mine.stored.owner, theirs.stored.owner) == ("me", "you")
