# SPDX-License-Identifier: Apache-2.0
"""The API: its routes, what every request passes before them, and how faults are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from opensandbox_server import api
from opensandbox_server._version import __version__
from opensandbox_server.api.faults import answer_fault
from opensandbox_server.api.keys import ApiKeys
from opensandbox_server.api.middleware import Authentication, OneStartPerTurn
from opensandbox_server.api.pages import own_names
from opensandbox_server.errors import RequestRefused
from opensandbox_server.ingress.endpoints import Endpoints
from opensandbox_server.sandboxes.sandboxes import Sandboxes
from opensandbox_server.settings.settings import Settings
from opensandbox_server.telemetry.requests import ObservedRequests
from opensandbox_server.telemetry.telemetry import Telemetry

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
"""FastAPI's own quotes what clients sent; ours, in telemetry/, does not."""


def build_app(
    settings: Settings,
    sandboxes: Sandboxes,
    endpoints: Endpoints,
    keys: ApiKeys,
    telemetry: Telemetry,
) -> FastAPI:
    """Put the API in front of sandboxes that are open already."""
    app = FastAPI(title="OpenSandbox lifecycle", version=__version__, telemetry=NO_TELEMETRY)
    app.state.sandboxes = sandboxes
    app.state.endpoints = endpoints
    app.state.metrics = telemetry.metrics
    app.state.runtime_name = sandboxes.runtime_name
    for router in api.routers:
        app.include_router(router)
        app.include_router(router, prefix="/v1", include_in_schema=False)
    app.include_router(api.versioned, prefix="/v1")
    for kind in (RequestRefused, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer_fault)
    # The last added is the first passed. No cookies, no credentials: a page must have a key.
    app.add_middleware(
        Authentication,
        keys=keys,
        names=own_names(settings),
        runtime_name=sandboxes.runtime_name,
    )
    if not keys.is_open:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=["*"],
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["OPEN-SANDBOX-ORIGIN", "X-Request-ID", "Server-Timing"],
        )
    app.add_middleware(ObservedRequests, telemetry=telemetry)
    app.add_middleware(OneStartPerTurn)
    _build_routes(app)
    return app


def _build_routes(app: FastAPI) -> None:
    """Look for a route that is not there, which builds all: else the first client waits for it."""
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": "/-", "headers": []})
