# SPDX-License-Identifier: Apache-2.0
"""A whole server in one process: real app, store and fake runtime; only ingress is a stand-in."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from opensandbox_server.api.keys import ApiKeys
from opensandbox_server.app import build_app
from opensandbox_server.errors import IngressUnavailable
from opensandbox_server.host.data_dir import DataDir
from opensandbox_server.ingress.endpoints import Endpoints
from opensandbox_server.ingress.routes import Route
from opensandbox_server.ingress.signing import Signer
from opensandbox_server.runtimes import open_runtime
from opensandbox_server.runtimes.base import RuntimeHome
from opensandbox_server.runtimes.fake import FakeRuntime
from opensandbox_server.sandboxes.principal import Principal
from opensandbox_server.sandboxes.sandboxes import Sandboxes, open_sandboxes
from opensandbox_server.settings.settings import Settings
from opensandbox_server.store.sqlite import open_sqlite
from opensandbox_server.store.store import Store
from opensandbox_server.telemetry.telemetry import open_telemetry

KEY = "a key of the tests"
HEADERS = {"OPEN-SANDBOX-API-KEY": KEY}
ONE_KEY = ApiKeys.of([KEY])
ANYBODY = Principal()
"""Who has the key."""
SIGNER = Signer("7", b"sixteen bytes or more")


def create_request(**changes: Any) -> dict[str, Any]:
    """Return a request that creates a sandbox; None takes a field away."""
    body: dict[str, Any] = {
        "image": {"uri": "any"},
        "entrypoint": ["tail", "-f", "/dev/null"],
        "timeout": 600,
        "resourceLimits": {"cpu": "500m", "memory": "512Mi"},
    }
    return {key: value for key, value in (body | changes).items() if value is not None}


@dataclass
class RememberedRoutes:
    """An ingress that only remembers what was asked of it."""

    table: dict[str, Route] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    is_closed: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the test has left it open."""
        return not self.is_closed

    @property
    def streams(self) -> dict[str, dict[str, int]]:
        """What it would have counted."""
        return {"request": {"open": 2, "begun": 3}}

    async def put(self, route: Route) -> None:
        """Remember a route."""
        if self.is_closed:
            raise IngressUnavailable("closed by the test")
        self.table[route.id] = route
        self.log.append("paused" if route.is_paused else "running")

    async def delete(self, sandbox_id: str) -> None:
        """Forget a route."""
        self.table.pop(sandbox_id, None)
        self.log.append("gone")


@dataclass
class World:
    """One running server and a client of it."""

    client: httpx.AsyncClient
    runtime: FakeRuntime
    routes: RememberedRoutes
    app: FastAPI

    @property
    def sandboxes(self) -> Sandboxes:
        """What the routes call."""
        found: Sandboxes = self.app.state.sandboxes
        return found

    async def create(self, **changes: Any) -> dict[str, Any]:
        """Create a sandbox that must succeed."""
        answer = await self.client.post("/v1/sandboxes", json=create_request(**changes))
        assert answer.status_code == 202, answer.text
        body: dict[str, Any] = answer.json()
        return body


def make_runtime(data_dir: Path, execd: Path | None = None) -> FakeRuntime:
    """Make a fake runtime whose instances outlive one world."""
    run_dir = data_dir / "run"
    run_dir.mkdir(parents=True, exist_ok=True)
    return FakeRuntime(RuntimeHome(data_dir=data_dir, run_dir=run_dir, execd=execd))


@contextlib.asynccontextmanager
async def open_world(
    data_dir: Path,
    runtime: FakeRuntime | None = None,
    keys: ApiKeys = ONE_KEY,
    shared: AbstractAsyncContextManager[Store] | None = None,
    **tables: Any,
) -> AsyncIterator[World]:
    """Start a server on data_dir; leaving stops the server and not the sandboxes.

    Its store is a file in data_dir, unless one that is shared is given.
    """
    server = {"data_dir": data_dir, **tables.pop("server", {})}
    settings = Settings.model_validate({"server": server, **tables})
    runtime = runtime or make_runtime(data_dir)
    routes, endpoints = RememberedRoutes(), Endpoints(settings.ingress, SIGNER, settings.server.eip)
    async with (
        open_telemetry(settings) as telemetry,
        shared or open_sqlite(settings.store_path, None, DataDir(data_dir).id()) as opened,
        open_runtime(runtime),
        open_sandboxes(settings, runtime, opened, routes) as (sandboxes, _),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(
                app := build_app(settings, sandboxes, endpoints, keys, telemetry),
                raise_app_exceptions=False,
            ),
            base_url="http://server:8080",
            headers=HEADERS,
        ) as client,
    ):
        yield World(client, runtime, routes, app)
