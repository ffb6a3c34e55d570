# SPDX-License-Identifier: Apache-2.0
"""The application: all wiring on one screen."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from opensandbox_server import api
from opensandbox_server._version import __version__
from opensandbox_server.api.faults import answer_fault
from opensandbox_server.api.keys import ApiKeys
from opensandbox_server.api.middleware import Authentication, OneStartPerTurn, RequestIds
from opensandbox_server.api.pages import own_names
from opensandbox_server.errors import RequestRefused
from opensandbox_server.host.ballast import Ballast
from opensandbox_server.host.data_dir import DataDir
from opensandbox_server.ingress.endpoints import Endpoints
from opensandbox_server.ingress.ingress import Routes
from opensandbox_server.runtimes.base import Runtime
from opensandbox_server.sandboxes.sandboxes import Sandboxes
from opensandbox_server.settings.settings import Settings
from opensandbox_server.store.sqlite import open_store


def build_app(
    settings: Settings,
    runtime: Runtime,
    routes: Routes,
    keys: ApiKeys,
    ways: Endpoints,
    ballast: Ballast | None = None,
) -> FastAPI:
    """Put the server together. Its lifespan opens everything, reconciles, and closes in reverse."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        data_id = DataDir(settings.data_dir).id()
        async with open_store(settings.store_path, ballast, data_id) as store, prepared(runtime):
            sandboxes = app.state.sandboxes = Sandboxes(settings, runtime, store, routes)
            events = runtime.watch()  # before looking, so that nothing happens unseen in between
            await sandboxes.reconcile()
            caring = asyncio.create_task(sandboxes.run(events), name="the care of sandboxes")
            app.state.caring = caring
            try:
                yield
            finally:
                caring.cancel()
                await asyncio.gather(caring, return_exceptions=True)

    app = FastAPI(title="OpenSandbox lifecycle", version=__version__, lifespan=lifespan)
    app.state.endpoints = ways
    app.state.runtime_name = runtime.name
    for router in api.routers:
        app.include_router(router)
        app.include_router(router, prefix="/v1", include_in_schema=False)
    app.include_router(api.versioned, prefix="/v1")
    for kind in (RequestRefused, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer_fault)
    # The last added is the first passed. No cookies, no credentials: a page must have a key.
    app.add_middleware(
        Authentication, keys=keys, names=own_names(settings), runtime_name=runtime.name
    )
    if not keys.is_open:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=["*"],
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["OPEN-SANDBOX-ORIGIN", "X-Request-ID", "Server-Timing"],
        )
    app.add_middleware(RequestIds)
    app.add_middleware(OneStartPerTurn)
    _build_routes(app)
    return app


def _build_routes(app: FastAPI) -> None:
    """Look for a route that is not there, which builds all: else the first client waits for it."""
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": "/-", "headers": []})


@contextlib.asynccontextmanager
async def prepared(runtime: Runtime) -> AsyncIterator[None]:
    """Make the runtime ready and release it at the end."""
    await runtime.prepare()
    try:
        yield
    finally:
        await runtime.close()
