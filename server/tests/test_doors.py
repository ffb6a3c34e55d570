# SPDX-License-Identifier: Apache-2.0
"""What holds at every door: keys, ids, CORS, and one error shape."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from opensandbox_server.api.keys import ApiKeys
from server.tests.world import World, open_world

pytestmark = pytest.mark.anyio

NOBODY = "00000000-0000-4000-8000-000000000000"
ONE = f"/sandboxes/{NOBODY}"
ROUTES_OF_ONE = [
    ("GET", ONE),
    ("DELETE", ONE),
    ("PATCH", f"{ONE}/metadata"),
    ("POST", f"{ONE}/pause"),
    ("POST", f"{ONE}/resume"),
    ("POST", f"{ONE}/renew-expiration"),
    ("GET", f"{ONE}/endpoints/44772"),
    ("GET", f"{ONE}/diagnostics/logs"),
    ("GET", f"{ONE}/diagnostics/events"),
    ("GET", f"{ONE}/diagnostics/inspect"),
    ("GET", f"{ONE}/diagnostics/summary"),
    ("POST", f"{ONE}/snapshots"),
    ("GET", f"{ONE}/networkpolicy"),
]
BODIES = {
    f"{ONE}/metadata": {"a": "b"},
    f"{ONE}/renew-expiration": {"expiresAt": "2199-01-01T00:00:00Z"},
}


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(("method", "path"), ROUTES_OF_ONE)
async def test_an_unknown_sandbox_is_404_everywhere(
    world: World, method: str, path: str, prefix: str
) -> None:
    answer = await world.client.request(method, prefix + path, json=BODIES.get(path))
    assert (answer.status_code, answer.json()["code"]) == (404, "FAKE::SANDBOX_NOT_FOUND")
    assert set(answer.json()) == {"code", "message"}
    assert NOBODY in answer.json()["message"]


@pytest.mark.parametrize(("method", "path"), [*ROUTES_OF_ONE, ("GET", "/nowhere"), ("GET", "/")])
async def test_without_a_key_every_door_is_closed(world: World, method: str, path: str) -> None:
    for headers, code in (
        ({}, "MISSING_API_KEY"),
        ({"OPEN-SANDBOX-API-KEY": "no"}, "INVALID_API_KEY"),
    ):
        world.client.headers.pop("OPEN-SANDBOX-API-KEY", None)
        answer = await world.client.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, code)
        assert answer.headers["x-request-id"]


async def test_a_server_that_knows_no_key_lets_nobody_in(tmp_path: Path) -> None:
    async with open_world(tmp_path / "data", keys=ApiKeys.of([])) as world:
        assert (await world.client.get("/v1/sandboxes")).status_code == 401


@pytest.mark.parametrize(
    "path", ["/health", "/version", "/openapi.json", "/docs", "/redoc", "/v1/health"]
)
async def test_some_doors_are_open(world: World, path: str) -> None:
    world.client.headers.pop("OPEN-SANDBOX-API-KEY")
    assert (await world.client.get(path)).status_code == 200


async def test_health_and_version_answer_as_the_contract_says(world: World) -> None:
    assert (await world.client.get("/health")).json() == {"status": "healthy"}
    assert list((await world.client.get("/version")).json()) == ["version"]


async def test_an_unknown_route_and_a_wrong_method_have_the_same_shape(world: World) -> None:
    answer = await world.client.get("/v1/nowhere")
    assert (answer.status_code, set(answer.json())) == (404, {"code", "message"})
    answer = await world.client.put("/v1/sandboxes")
    assert (answer.status_code, set(answer.json())) == (405, {"code", "message"})
    assert answer.headers["allow"]


async def test_a_fault_of_ours_has_the_same_shape_and_the_request_id(world: World) -> None:
    del world.app.state.sandboxes
    answer = await world.client.get("/v1/sandboxes", headers={"X-Request-ID": "mine"})
    assert answer.status_code == 500
    assert answer.json() == {
        "code": "GENERAL::UNKNOWN_ERROR",
        "message": "An unexpected error occurred.",
    }
    assert answer.headers["x-request-id"] == "mine"


async def test_a_body_that_is_not_json_is_422(world: World) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await world.client.post("/v1/sandboxes", content=b"{", headers=headers)
    assert (answer.status_code, list(answer.json())) == (422, ["detail"])


async def test_a_body_that_is_too_long_is_413(world: World) -> None:
    answer = await world.client.post("/v1/sandboxes", content=b" " * (1024 * 1024 + 1))
    assert (answer.status_code, set(answer.json())) == (413, {"code", "message"})


async def test_a_body_without_a_length_is_read_no_further_than_the_longest(world: World) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(64):
            taken += 1
            yield b" " * (256 * 1024)

    answer = await world.client.post("/v1/sandboxes", content=endless())
    assert (answer.status_code, set(answer.json())) == (413, {"code", "message"})
    assert answer.json()["code"] == "GENERAL::BODY_TOO_LARGE"
    assert taken == 5


async def test_every_answer_has_a_request_id(world: World) -> None:
    answer = await world.client.get("/health", headers={"X-Request-ID": "  given  "})
    assert answer.headers["x-request-id"] == "given"
    made = (await world.client.get("/health")).headers["x-request-id"]
    assert len(made) == 32
    assert int(made, 16) >= 0


async def test_any_origin_may_ask_and_none_with_credentials(world: World) -> None:
    world.client.headers.pop("OPEN-SANDBOX-API-KEY")
    preflight = await world.client.options(
        "/v1/sandboxes",
        headers={
            "Origin": "http://page",
            "Access-Control-Request-Method": "DELETE",
            "Access-Control-Request-Headers": "open-sandbox-api-key",
        },
    )
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in preflight.headers
    answer = await world.client.get("/health", headers={"Origin": "http://page"})
    assert "OPEN-SANDBOX-ORIGIN" in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (
            "/v1/metrics/events",
            {"eventType": "sandbox.create", "createDurationMs": 1.5, "success": True},
            204,
        ),
        ("/v1/metrics/events", {"eventType": "other", "createDurationMs": 1, "success": True}, 422),
        (
            "/v1/metrics/events",
            {"eventType": "sandbox.create", "createDurationMs": -1, "success": True},
            422,
        ),
        (
            "/metrics/events",
            {"eventType": "sandbox.create", "createDurationMs": 1, "success": True},
            404,
        ),
    ],
)
async def test_measurements_of_clients_are_taken_under_v1_only(
    world: World, path: str, body: dict[str, object], status: int
) -> None:
    assert (await world.client.post(path, json=body)).status_code == status
