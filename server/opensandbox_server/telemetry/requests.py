# SPDX-License-Identifier: Apache-2.0
"""Every request, as seen from outside: its id, its trace, and how it ended."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opensandbox_server.telemetry.metrics import Outcome
from opensandbox_server.telemetry.spans import Trace, begin
from opensandbox_server.telemetry.telemetry import Telemetry
from opensandbox_server.telemetry.tracing import TRACEPARENT, trace_id_of

access = logging.getLogger("opensandbox_server.access")

REQUEST_ID_HEADER = "X-Request-ID"
LONGEST_REQUEST_ID = 200
UNANSWERED = 500
"""What a request ended with that was left by an exception: its answer is made further out."""


class ObservedRequests:
    """Gives every request an id, on errors too, logs it and counts it with its outcome."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        """Wrap app."""
        self._app = app
        self._metrics = telemetry.metrics
        self._tracer = telemetry.tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and put the id into the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        trace, status = self._begin(scope, headers), UNANSWERED

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = trace.request_id
            await send(message)

        with self._metrics.in_flight.track_inprogress(), self._exported(trace, headers) as export:
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                outcome = _outcome(scope, status, trace.seconds)
                trace.sandbox_id = trace.sandbox_id or _sandbox_id(scope, outcome)
                self._metrics.saw_request(outcome)
                export(outcome)
                _log_access(scope, trace, outcome)

    def _begin(self, scope: Scope, headers: Headers) -> Trace:
        given = headers.get(REQUEST_ID_HEADER, "").strip()[:LONGEST_REQUEST_ID]
        trace = Trace(given or uuid.uuid4().hex, self._metrics.saw_stage)
        scope.setdefault("state", {}).update(request_id=trace.request_id)
        trace.trace_id = trace_id_of(headers.get(TRACEPARENT))
        begin(trace)  # never ended: a request has a task, and so a context, of its own
        return trace

    def _exported(
        self, trace: Trace, headers: Headers
    ) -> AbstractContextManager[Callable[[Outcome], None]]:
        if self._tracer is None:
            return contextlib.nullcontext(lambda _: None)
        return self._tracer.request(trace, headers)


def _outcome(scope: Scope, status: int, seconds: float) -> Outcome:
    route = scope.get("route")
    template = route.path.removeprefix("/v1") if isinstance(route, Route) else ""
    code = scope["state"].get("error_code", str(status))
    return Outcome(scope["method"], template, status, code, seconds)


def _sandbox_id(scope: Scope, outcome: Outcome) -> str:
    """Return the id in the path, when there is such a sandbox."""
    found: str = scope.get("path_params", {}).get("sandbox_id", "")
    return found if outcome.status < 400 else ""


def _log_access(scope: Scope, trace: Trace, outcome: Outcome) -> None:
    # As it was sent: decoded it might have line breaks, and write lines of its own.
    path = scope.get("raw_path", b"").decode("latin-1")
    spent = round(1000 * outcome.seconds, 1)
    fields = {"method": outcome.method, "path": path, "status": outcome.status, "ms": spent}
    ids = {"request": trace.request_id, "trace": trace.trace_id}
    told = " ".join(f"{name}={value}" for name, value in ids.items() if value)
    access.info("%s %s %d %.1fms %s", *fields.values(), told, extra={"fields": fields})
