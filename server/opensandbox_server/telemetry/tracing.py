# SPDX-License-Identifier: Apache-2.0
"""Traces over several programs: the W3C header that continues one, and who exports ours."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from opensandbox_server.errors import StartupError
from opensandbox_server.settings.sections import Otel
from opensandbox_server.telemetry.metrics import Outcome
from opensandbox_server.telemetry.spans import Trace

TRACEPARENT = "traceparent"
_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Tracer(Protocol):
    """Exports requests with their spans."""

    def request(
        self, trace: Trace, headers: Mapping[str, str]
    ) -> AbstractContextManager[Callable[[Outcome], None]]:
        """Continue the trace of the headers, or begin one; yields what takes how it ended."""
        ...


def trace_id_of(traceparent: str | None) -> str:
    """Return the id of the trace that a header continues; nothing when it is not one."""
    found = _FORM.fullmatch(traceparent or "")
    return found[1] if found else ""


@contextlib.asynccontextmanager
async def open_tracer(settings: Otel) -> AsyncIterator[Tracer | None]:
    """Export until this is left, and then the rest. Raises StartupError."""
    if not settings.enabled:
        yield None
        return
    try:
        from opensandbox_server.telemetry.otel import OtelTracer, make_provider
    except ImportError as fault:
        raise StartupError(
            "otel.enabled: OpenTelemetry is not installed here; "
            "install it with: pip install 'opensandbox-server[otel]'"
        ) from fault
    provider = make_provider(settings)
    try:
        yield OtelTracer(provider)
    finally:
        await asyncio.to_thread(provider.shutdown)
