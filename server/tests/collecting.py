# SPDX-License-Identifier: Apache-2.0
"""A collector of traces on this machine: takes OTLP over HTTP, and reads its protobuf."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """What was exported to one address."""

    def __init__(self, url: str) -> None:
        """Take where it listens."""
        self.url = url
        self.bodies: list[bytes] = []
        self.paths: set[str] = set()

    def exports(self) -> list[ExportTraceServiceRequest]:
        """Return what came; what is no OTLP fails."""
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

    def spans(self) -> list[Span]:
        """Return the spans that came."""
        return [
            span
            for export in self.exports()
            for resource in export.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> Span:
        """Return the one span of that name."""
        (found,) = [span for span in self.spans() if span.name == name]
        return found

    def service_names(self) -> set[str]:
        """Return who says to have exported."""
        return {
            attribute.value.string_value
            for export in self.exports()
            for resource in export.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
        }


def attributes_of(span: Span) -> dict[str, str | int]:
    """Return what is said of a span."""
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """Collect on any free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.bodies.append(body)
            collector.paths.add(self.path)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, name="collector")
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
