# SPDX-License-Identifier: Apache-2.0
"""POST /sandboxes: what it answers, what it refuses, and that a failure leaves nothing."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from server.tests.world import ANYBODY, World, create_request, open_world
from tests.harness.wait import eventually_async

pytestmark = pytest.mark.anyio


def has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_null(each) for each in value.values())
    if isinstance(value, list):
        return any(has_null(each) for each in value)
    return value is None


async def test_a_sandbox_is_running_when_create_answers(world: World) -> None:
    answer = await world.client.post("/v1/sandboxes", json=create_request(metadata={"team": "a"}))
    body = answer.json()
    assert answer.status_code == 202
    assert body["status"]["state"] == "Running"
    assert body["status"]["reason"] == "CONTAINER_RUNNING"
    assert body["entrypoint"] == ["tail", "-f", "/dev/null"]
    assert body["metadata"] == {"team": "a"}
    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", body["id"]
    )
    assert [instance.id for instance in await world.runtime.instances()] == [body["id"]]
    assert world.routes.table[body["id"]].is_paused is False


async def test_the_answer_carries_the_endpoints_clients_ask_for_next(world: World) -> None:
    body = await world.create(secureAccess=True)
    base = f"server:8080/v1/sandboxes/{body['id']}/proxy"
    execd, egress = body["endpoints"]["44772"], body["endpoints"]["18080"]
    assert (execd["endpoint"], egress["endpoint"]) == (f"{base}/44772", f"{base}/18080")
    route = world.routes.table[body["id"]]
    assert execd["headers"]["X-EXECD-ACCESS-TOKEN"] == route.execd_token
    assert execd["headers"]["OpenSandbox-Secure-Access"] == route.secure_token
    asked = await world.client.get(f"/v1/sandboxes/{body['id']}/endpoints/44772")
    assert asked.json() == execd


async def test_the_answer_tells_where_the_time_went(world: World) -> None:
    answer = await world.client.post("/sandboxes", json=create_request())
    names = re.findall(r"(\w+);dur=\d+\.\d+", answer.headers["server-timing"])
    assert set(names) == {"total", "runtime", "store", "route"}


@pytest.mark.parametrize("timeout", [None, 600])
async def test_nothing_is_ever_null(world: World, timeout: int | None) -> None:
    body = await world.create(timeout=timeout, platform={"os": "Linux", "arch": " AMD64 "})
    assert not has_null(body)
    assert ("expiresAt" in body) == (timeout is not None)
    for path in (f"/sandboxes/{body['id']}", "/sandboxes", f"/sandboxes/{body['id']}/endpoints/80"):
        assert not has_null((await world.client.get(path)).json())


async def test_what_clients_really_send_is_accepted(world: World) -> None:
    answer = await world.client.post(
        "/v1/sandboxes",
        json=create_request()
        | {"timeout": None, "env": {"A": "b", "C": None}, "metadata": {}, "extensions": {}},
    )
    assert answer.status_code == 202
    assert "metadata" not in answer.json()


@pytest.mark.parametrize(
    "body",
    [
        {},
        create_request(image=None),
        create_request(image={"uri": " "}),
        create_request(snapshotId="both"),
        create_request(entrypoint=None),
        create_request(entrypoint=[]),
        create_request(resourceLimits=None),
        create_request(timeout=59),
        create_request(timeout="soon"),
        create_request(env={"OPENSANDBOX_LIFECYCLE": "x"}),
        create_request(platform={"os": "plan9", "arch": "amd64"}),
        create_request(credentialProxy={"enabled": True}),
        create_request(volumes=[{"name": "v", "mountPath": "/v"}]),
        create_request(lifecycle={"unknown": 1}),
        {"templateId": "t"},
    ],
)
async def test_a_wrong_shape_is_answered_with_422_and_details(
    world: World, body: dict[str, Any]
) -> None:
    answer = await world.client.post("/v1/sandboxes", json=body)
    assert answer.status_code == 422, answer.text
    details = answer.json()["detail"]
    assert details
    assert all({"loc", "msg", "type"} == set(detail) for detail in details)
    assert await world.runtime.instances() == []


async def test_a_refusal_never_repeats_a_password(world: World) -> None:
    image = {"uri": "", "auth": {"username": "me", "password": "hunter2"}}
    answer = await world.client.post("/v1/sandboxes", json=create_request(image=image))
    assert answer.status_code == 422
    assert "hunter2" not in answer.text


@pytest.mark.parametrize(
    ("changes", "status", "code", "word"),
    [
        ({"image": {"uri": "unknown/x"}}, 500, "FAKE::SANDBOX_IMAGE_PULL_FAILED", "unknown/x"),
        ({"image": {"uri": "broken"}}, 500, "FAKE::SANDBOX_START_FAILED", "never starts"),
        ({"entrypoint": [" "]}, 400, "FAKE::INVALID_ENTRYPOINT", "entrypoint"),
        ({"entrypoint": ["a\0b"]}, 400, "FAKE::INVALID_ENTRYPOINT", "NUL"),
        (
            {"metadata": {"opensandbox.io/id": "x"}},
            400,
            "SANDBOX::INVALID_METADATA_LABEL",
            "reserved",
        ),
        ({"metadata": {"a": "no spaces"}}, 400, "SANDBOX::INVALID_METADATA_LABEL", "'a'"),
        ({"resourceLimits": {"cpu": "lots"}}, 400, "SANDBOX::INVALID_PARAMETER", "cpu"),
        ({"timeout": 10**15}, 400, "SANDBOX::INVALID_PARAMETER", "timeout"),
        ({"env": {"A=B": "c"}}, 400, "SANDBOX::INVALID_PARAMETER", "env"),
        ({"env": {"OPENSANDBOX_EGRESS_X": "c"}}, 400, "SANDBOX::INVALID_PARAMETER", "EGRESS_X"),
        (
            {"extensions": {"access.renew.extend.seconds": "299"}},
            400,
            "SANDBOX::INVALID_PARAMETER",
            "300",
        ),
        (
            {"extensions": {"bootstrap.execd.isolation": "x"}},
            400,
            "SANDBOX::INVALID_PARAMETER",
            "enable",
        ),
        ({"extensions": {"network": "host"}}, 400, "SANDBOX::INVALID_PARAMETER", "network"),
        ({"extensions": {"readonly": "yes"}}, 400, "SANDBOX::INVALID_PARAMETER", "readonly"),
        ({"extensions": {"readonly": "true"}}, 400, "SANDBOX::INVALID_PARAMETER", "read-only"),
        (
            {"extensions": {"network": "none"}},
            400,
            "SANDBOX::INVALID_PARAMETER",
            "without a network",
        ),
        ({"extensions": {"hostname": "a_b"}}, 400, "SANDBOX::INVALID_PARAMETER", "hostname"),
        ({"extensions": {"hostname": "mine"}}, 400, "SANDBOX::INVALID_PARAMETER", "cannot name"),
        ({"resourceLimits": {"disk": "1Gi"}}, 400, "SANDBOX::INVALID_PARAMETER", "disk"),
        ({"resourceLimits": {"gpu": "1"}}, 400, "SANDBOX::INVALID_PARAMETER", "GPU"),
        ({"extensions": {"poolRef": "p"}}, 400, "SANDBOX::UNSUPPORTED_POOL_REF", "pool"),
        (
            {"platform": {"os": "windows", "arch": "amd64"}},
            400,
            "SANDBOX::INVALID_PARAMETER",
            "linux",
        ),
        ({"networkPolicy": {}}, 400, "SANDBOX::INVALID_PARAMETER", "networkPolicy"),
        (
            {"lifecycle": {"preStart": {"command": ["a"]}}},
            400,
            "SANDBOX::INVALID_PARAMETER",
            "lifecycle",
        ),
        (
            {"volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/"}}]},
            400,
            "VOLUME::UNSUPPORTED_BACKEND",
            "volumes",
        ),
        ({"image": None, "snapshotId": "s"}, 501, "SNAPSHOT::NOT_IMPLEMENTED", "snapshotId"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name_and_leaves_nothing(
    world: World, changes: dict[str, Any], status: int, code: str, word: str
) -> None:
    answer = await world.client.post("/v1/sandboxes", json=create_request(**changes))
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert word in answer.json()["message"]
    assert await world.runtime.instances() == []
    assert world.routes.table == {}
    assert (await world.client.get("/v1/sandboxes")).json()["items"] == []


async def test_a_template_is_not_built_yet(world: World) -> None:
    answer = await world.client.post("/v1/sandboxes", json={"templateId": "t", "timeout": 60})
    assert (answer.status_code, answer.json()["code"]) == (501, "FSB::API_NOT_SUPPORTED")


async def test_the_longest_timeout_is_the_operators_choice(tmp_path: Path) -> None:
    async with open_world(tmp_path, server={"max_sandbox_timeout_seconds": 100}) as world:
        answer = await world.client.post("/v1/sandboxes", json=create_request(timeout=101))
        assert (answer.status_code, answer.json()["code"]) == (400, "SANDBOX::INVALID_PARAMETER")
        for no_timeout in ({}, {"timeout": None}):
            answer = await world.client.post(
                "/v1/sandboxes", json=create_request(timeout=None) | no_timeout
            )
            assert (answer.status_code, answer.json()["code"]) == (
                400,
                "SANDBOX::INVALID_PARAMETER",
            )
        made = await world.create(timeout=100)
        path = f"/v1/sandboxes/{made['id']}/renew-expiration"
        for seconds, status in ((200, 400), (90, 200)):
            until = datetime.now(UTC) + timedelta(seconds=seconds)
            answer = await world.client.post(path, json={"expiresAt": until.isoformat()})
            assert answer.status_code == status, answer.text


async def test_traffic_lengthens_no_life_beyond_the_operators_choice(tmp_path: Path) -> None:
    server = {"max_sandbox_timeout_seconds": 100}
    async with open_world(tmp_path, server=server, renew_intent={"enabled": True}) as world:
        made = await world.create(timeout=60, extensions={"access.renew.extend.seconds": "3600"})
        sandbox = await world.sandboxes.get(ANYBODY, made["id"])
        before, longest = sandbox.stored.expires_at, timedelta(seconds=100)
        world.sandboxes.saw_traffic({made["id"]: 1})
        await eventually_async(lambda: sandbox.stored.expires_at != before)
        assert sandbox.stored.expires_at
        assert sandbox.stored.expires_at - datetime.now(UTC) <= longest


async def test_a_closed_door_undoes_the_create(world: World) -> None:
    world.routes.is_closed = True
    answer = await world.client.post("/v1/sandboxes", json=create_request())
    assert (answer.status_code, answer.json()["code"]) == (503, "SANDBOX::INGRESS_UNAVAILABLE")
    assert await world.runtime.instances() == []
    assert (await world.client.get("/v1/sandboxes")).json()["pagination"]["totalItems"] == 0


async def test_only_extensions_of_users_are_shown(world: World) -> None:
    extensions = {"opensandbox.extensions.x": "y", "network": "default", "whatever": "z"}
    body = await world.create(extensions=extensions)
    assert body["extensions"] == {"opensandbox.extensions.x": "y"}


async def test_many_creates_at_once_all_succeed(world: World) -> None:
    bodies = await asyncio.gather(*(world.create() for _ in range(50)))
    assert len({body["id"] for body in bodies}) == 50
    assert len(await world.runtime.instances()) == 50


class TestIdempotency:
    """The header Idempotency-Key."""

    async def test_the_same_key_and_request_make_one_sandbox(self, world: World) -> None:
        headers = {"Idempotency-Key": "once"}
        post = world.client.post
        at_once = await asyncio.gather(
            *(post("/sandboxes", json=create_request(), headers=headers) for _ in range(5))
        )
        later = await post("/v1/sandboxes", json=create_request(), headers=headers)
        assert {answer.status_code for answer in [*at_once, later]} == {202}
        assert len({answer.json()["id"] for answer in [*at_once, later]}) == 1
        assert len(await world.runtime.instances()) == 1

    async def test_the_same_key_for_another_request_is_a_conflict(self, world: World) -> None:
        headers = {"Idempotency-Key": "once"}
        await world.client.post("/sandboxes", json=create_request(), headers=headers)
        answer = await world.client.post(
            "/sandboxes", json=create_request(timeout=700), headers=headers
        )
        assert (answer.status_code, answer.json()["code"]) == (409, "SANDBOX::IDEMPOTENCY_CONFLICT")

    async def test_a_failed_create_does_not_use_up_its_key(self, world: World) -> None:
        headers = {"Idempotency-Key": "once"}
        world.routes.is_closed = True
        assert (
            await world.client.post("/sandboxes", json=create_request(), headers=headers)
        ).status_code == 503
        world.routes.is_closed = False
        assert (
            await world.client.post("/sandboxes", json=create_request(), headers=headers)
        ).status_code == 202

    async def test_a_key_whose_sandbox_ended_makes_no_second_one(self, world: World) -> None:
        headers = {"Idempotency-Key": "once"}
        made = await world.client.post("/sandboxes", json=create_request(), headers=headers)
        await world.client.delete(f"/sandboxes/{made.json()['id']}")
        answer = await world.client.post("/sandboxes", json=create_request(), headers=headers)
        assert answer.status_code == 409
        assert "ended" in answer.json()["message"]

    async def test_a_key_is_remembered_over_a_restart(self, tmp_path: Path) -> None:
        headers = {"Idempotency-Key": "once"}
        async with open_world(tmp_path) as world:
            first = await world.client.post("/sandboxes", json=create_request(), headers=headers)
            runtime = world.runtime
        async with open_world(tmp_path, runtime) as world:
            again = await world.client.post("/sandboxes", json=create_request(), headers=headers)
            assert again.json()["id"] == first.json()["id"]

    async def test_without_a_key_every_request_makes_one(self, world: World) -> None:
        assert (await world.create())["id"] != (await world.create())["id"]
