# SPDX-License-Identifier: Apache-2.0
"""What routes are given besides the request's own values."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request

from opensandbox_server.ingress.endpoints import Endpoints, RequestOrigin
from opensandbox_server.sandboxes.principal import Principal
from opensandbox_server.sandboxes.sandboxes import Sandboxes
from opensandbox_server.telemetry.metrics import Metrics


async def _sandboxes(request: Request) -> Sandboxes:
    return cast(Sandboxes, request.app.state.sandboxes)


async def _endpoints(request: Request) -> Endpoints:
    return cast(Endpoints, request.app.state.endpoints)


async def _metrics(request: Request) -> Metrics:
    return cast(Metrics, request.app.state.metrics)


async def _principal(request: Request) -> Principal:
    return cast(Principal, request.state.principal)


async def _request_origin(request: Request) -> RequestOrigin:
    prefix = "/v1" if request.url.path.startswith("/v1/") else ""
    return RequestOrigin(request.headers.get("host", "localhost"), prefix)


SandboxesDep = Annotated[Sandboxes, Depends(_sandboxes)]
EndpointsDep = Annotated[Endpoints, Depends(_endpoints)]
MetricsDep = Annotated[Metrics, Depends(_metrics)]
PrincipalDep = Annotated[Principal, Depends(_principal)]
OriginDep = Annotated[RequestOrigin, Depends(_request_origin)]
