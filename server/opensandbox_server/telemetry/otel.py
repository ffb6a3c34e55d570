# SPDX-License-Identifier: Apache-2.0
"""Traces to an OpenTelemetry collector. Only what exports imports this: the packages are optional.

Spans have names, times, ids and error codes, and never the message of an exception: that may quote
what a client sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, format_trace_id, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from opensandbox_server._version import __version__
from opensandbox_server.errors import StartupError
from opensandbox_server.settings.sections import Otel
from opensandbox_server.telemetry.metrics import METHODS, Outcome
from opensandbox_server.telemetry.spans import Trace

EXPORT_SECONDS = 3.0
"""Longest export, tries again included: at the end of the server somebody waits for the last."""

TRACES_PATH = "/v1/traces"
"""Where a collector takes traces, below its address."""


def make_provider(settings: Otel) -> TracerProvider:
    """Prepare to export from a thread of its own. Raises StartupError."""
    exporter = OTLPSpanExporter(_traces_url(settings.endpoint), timeout=EXPORT_SECONDS)
    about = {"service.name": settings.service_name, "service.version": __version__}
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    delay = settings.export_interval_millis
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=delay))
    return provider


def _traces_url(endpoint: str) -> str | None:
    """Return where traces are sent; None leaves that to the variables of OpenTelemetry."""
    if not endpoint:
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise StartupError("otel.endpoint: must begin with http:// or https:// (OTLP over HTTP)")
    return endpoint.rstrip("/").removesuffix(TRACES_PATH) + TRACES_PATH


class OtelTracer:
    """A span for each request, and below it one for each `with span(…)`."""

    def __init__(self, provider: TracerProvider) -> None:
        """Take who exports; several in one process share nothing."""
        self._tracer = provider.get_tracer("opensandbox_server", __version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextlib.contextmanager
    def request(
        self, trace: Trace, headers: Mapping[str, str]
    ) -> Iterator[Callable[[Outcome], None]]:
        """Continue the trace of the headers, or begin one; yields what takes how it ended."""
        parent = self._propagator.extract(headers, Context())
        root = self._tracer.start_span("request", parent, SpanKind.SERVER)
        trace.trace_id = format_trace_id(root.get_span_context().trace_id)
        trace.export = self._span
        with use_span(
            root, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            yield lambda outcome: _describe(root, trace, outcome)

    @contextlib.contextmanager
    def _span(self, name: str) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False
        ) as opened:
            try:
                yield
            except BaseException as fault:
                opened.set_status(Status(StatusCode.ERROR, type(fault).__name__))
                raise


def _describe(root: Span, trace: Trace, outcome: Outcome) -> None:
    """Give a span its name and what the conventions of OpenTelemetry say of HTTP."""
    method = outcome.method if outcome.method in METHODS else "_OTHER"
    root.update_name(f"{method} {outcome.route}".rstrip())
    root.set_attribute("http.request.method", method)
    root.set_attribute("http.response.status_code", outcome.status)
    root.set_attribute("opensandbox.request.id", trace.request_id)
    if trace.sandbox_id:
        root.set_attribute("opensandbox.sandbox.id", trace.sandbox_id)
    if outcome.route:
        root.set_attribute("http.route", outcome.route)
    if outcome.status >= 400:
        root.set_attribute("error.type", outcome.code)
    if outcome.status >= 500:
        root.set_status(Status(StatusCode.ERROR))
