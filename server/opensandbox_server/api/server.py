# SPDX-License-Identifier: Apache-2.0
"""Routes about the server itself."""

import logging

from fastapi import APIRouter

from opensandbox.models import ClientMetricsEvent, Health, ServerVersion
from opensandbox_server._version import __version__

log = logging.getLogger(__name__)

router = APIRouter(tags=["server"])
versioned = APIRouter(tags=["server"])


@router.get("/health")
async def health() -> Health:
    """Answer."""
    return Health()


@router.get("/version")
async def version() -> ServerVersion:
    """Tell the version of the server."""
    return ServerVersion(version=__version__)


@versioned.post("/metrics/events", status_code=204)
async def take_metrics_event(body: ClientMetricsEvent) -> None:
    """Take what a client measured."""
    log.debug("a client's %s took %.1f ms", body.event_type, body.create_duration_ms)
