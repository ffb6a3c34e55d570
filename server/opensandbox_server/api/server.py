# SPDX-License-Identifier: Apache-2.0
"""Routes about the server itself."""

import logging

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from opensandbox.models import ClientMetricsEvent, Health, Readiness, ServerVersion
from opensandbox_server._version import __version__
from opensandbox_server.api.depends import MetricsDep, SandboxesDep
from opensandbox_server.errors import NotReady

log = logging.getLogger(__name__)

router = APIRouter(tags=["server"])
versioned = APIRouter(tags=["server"])


@router.get("/health")
async def health() -> Health:
    """Answer."""
    return Health()


@router.get("/ready")
async def ready(sandboxes: SandboxesDep) -> Readiness:
    """Say whether everything works, or what does not."""
    if down := sandboxes.down:
        raise NotReady(f"Down right now: {', '.join(down)}.")
    return Readiness()


@router.get("/version")
async def version() -> ServerVersion:
    """Tell the version of the server."""
    return ServerVersion(version=__version__)


@router.get("/metrics", response_class=PlainTextResponse)
async def get_metrics(metrics: MetricsDep, sandboxes: SandboxesDep) -> PlainTextResponse:
    """Tell what is counted, in the text format of Prometheus."""
    text = await metrics.scrape(sandboxes.all_states(), sandboxes.parts, sandboxes.streams)
    return PlainTextResponse(text, media_type=CONTENT_TYPE_LATEST)


@versioned.post("/metrics/events", status_code=204)
async def take_metrics_event(body: ClientMetricsEvent) -> None:
    """Take what a client measured."""
    log.debug("a client's %s took %.1f ms", body.event_type, body.create_duration_ms)
