# SPDX-License-Identifier: Apache-2.0
"""What a server tells of itself while it is open: metrics always, traces when asked for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from opensandbox_server.settings.settings import Settings
from opensandbox_server.telemetry.metrics import Metrics
from opensandbox_server.telemetry.stalls import measure_stalls
from opensandbox_server.telemetry.tracing import Tracer, open_tracer


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Who hears of every request."""

    metrics: Metrics
    tracer: Tracer | None
    """None when no traces are exported."""


@contextlib.asynccontextmanager
async def open_telemetry(settings: Settings) -> AsyncIterator[Telemetry]:
    """Begin to count, and to export when the settings say so. Raises StartupError."""
    metrics = Metrics()
    async with open_tracer(settings.otel) as tracer, measure_stalls(metrics.saw_stall):
        yield Telemetry(metrics, tracer)
