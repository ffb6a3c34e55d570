# SPDX-License-Identifier: Apache-2.0
"""Asks for a sandbox in a way that can be repeated, and says how long it took."""

import secrets
import time
from contextlib import suppress

from pydantic import TypeAdapter

from opensandbox._requests import segment
from opensandbox._retry import IDEMPOTENCY_KEY
from opensandbox.exceptions import SandboxException
from opensandbox.models.errors import ClientMetricsEvent
from opensandbox.models.sandboxes import CreateSandboxRequest, SandboxCreateResponse

from .transport import Transport
from .waiting import GIVING_UP

# How long somebody who gives up waits for the sandbox to be found and ended.
PARTING_SECONDS = 10.0

# A report is worth this much of the server's time and no more.
REPORT_SECONDS = 5.0

_CREATED = TypeAdapter(SandboxCreateResponse)


async def create_sandbox(
    transport: Transport, request: CreateSandboxRequest
) -> SandboxCreateResponse:
    """Make one sandbox, however often the question has to be sent."""
    server = transport.to(transport.config.lifecycle)
    body = request.to_wire()
    headers = {IDEMPOTENCY_KEY: secrets.token_hex(16)}
    try:
        return await server.ask(_CREATED, "POST", "/sandboxes", json=body, headers=headers)
    except GIVING_UP:
        # The server goes on with what has a key, for whoever asks again.
        with suppress(SandboxException):
            options = {"headers": headers, "once_within": PARTING_SECONDS}
            made = await server.ask(_CREATED, "POST", "/sandboxes", json=body, **options)
            await server.send("DELETE", f"/sandboxes/{segment(made.id, 'id')}", **options)
        raise


class Stopwatch:
    """Measures one create and reports it to the server, which the caller does not wait for."""

    def __init__(self, transport: Transport, request: CreateSandboxRequest) -> None:
        """Begin to measure."""
        self._transport = transport
        self._image = request.image.image if request.image else None
        self._began = time.monotonic()

    def report(self, sandbox_id: str) -> None:
        """Say that the sandbox is ready."""
        if self._transport.config.reports_metrics:
            milliseconds = (time.monotonic() - self._began) * 1000
            event = ClientMetricsEvent(
                event_type="sandbox.create",
                create_duration_ms=milliseconds,
                success=True,
                sandbox_id=sandbox_id,
                image=self._image,
            )
            self._transport.background.start(lambda: self._send(event))

    async def _send(self, event: ClientMetricsEvent) -> None:
        server = self._transport.to(self._transport.config.lifecycle)
        with suppress(SandboxException):  # nobody depends on it
            path, body = "/metrics/events", event.to_wire()
            await server.send("POST", path, json=body, once_within=REPORT_SECONDS)
