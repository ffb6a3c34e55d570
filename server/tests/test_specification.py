# SPDX-License-Identifier: Apache-2.0
"""The server has exactly the routes of `specs/lifecycle.yaml`; what is not built says so there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.routing import APIRoute

from opensandbox_server import api
from server.tests.world import World

pytestmark = pytest.mark.anyio

SPECIFICATION = Path(__file__).parents[2] / "specs" / "lifecycle.yaml"
PATHS: dict[str, dict[str, Any]] = yaml.load(SPECIFICATION.read_text(), yaml.CSafeLoader)["paths"]
METHODS = ("get", "put", "post", "patch", "delete")
ONLY_BARE = {"/docs", "/redoc", "/openapi.json"}
ONLY_UNDER_V1 = {"/metrics/events"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and description of what the server itself answers; proxies are not."""
    for path, item in PATHS.items():
        for method in METHODS:
            if method in item and "/proxy/" not in path:
                yield method.upper(), path, item[method]


def shape(path: str) -> str:
    """Return a path with its parameters unnamed."""
    return re.sub(r"{[^}]*}", "{}", path)


def test_every_route_of_the_server_is_written_there() -> None:
    specified = {(method, shape(path)) for method, path, _ in operations()}
    built = {
        (method, shape(route.path))
        for router in (*api.routers, api.versioned)
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    assert len(built) > 30
    assert built - specified == set()


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_every_route_that_is_written_there_is_one_of_the_server(
    world: World, prefix: str
) -> None:
    for method, path, _ in operations():
        if path in (ONLY_BARE if prefix else ONLY_UNDER_V1):
            continue
        whole = prefix + re.sub(r"{[^}]*}", "1", path)
        answer = await world.client.request(method, whole)
        assert answer.status_code != 405, whole
        assert "ROUTE_NOT_FOUND" not in answer.text, whole


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_what_is_not_built_answers_with_the_code_that_is_written_there(
    world: World, prefix: str
) -> None:
    sandbox_id = (await world.create())["id"]
    asked = 0
    for method, path, operation in operations():
        said = re.search("Not built yet, 501 `([A-Z:_]+)`", operation.get("description", ""))
        if said is None:
            continue
        whole = re.sub(r"{[^}]*}", sandbox_id, prefix + path)
        answer = await world.client.request(method, whole)
        assert (answer.status_code, answer.json()["code"]) == (501, said[1]), f"{method} {path}"
        asked += 1
    assert asked == 17
