# SPDX-License-Identifier: Apache-2.0
"""What is counted, as Prometheus reads it at `/metrics`.

A label has one of few values that are fixed here or in the code: never an id, an image, a key, or
anything else that a client sends.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Counted
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from opensandbox.models import SandboxState
from opensandbox_server._version import __version__

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""In seconds: from what the store takes to what a create may take."""

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
"""A client may send any word; all others are one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended."""

    method: str
    route: str
    """The template of the route, /sandboxes/{sandbox_id}; empty when it came to none."""
    status: int
    code: str
    """The error code of the answer; the status when it has none."""
    seconds: float

    @property
    def is_create(self) -> bool:
        """True for what asked for a sandbox and had a valid key."""
        return (self.method, self.route) == ("POST", "/sandboxes")

    @property
    def result(self) -> str:
        """Tell what the client must change from what failed here; 501 is the client's."""
        if self.status < 400:
            return "ok"
        return "refused" if self.status < 500 or self.status == 501 else "failed"


class Metrics:
    """All that one server counts; several in one process share nothing."""

    def __init__(self) -> None:
        """Begin at zero."""
        # When each was first counted: as many lines again, for nobody.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        own = self.registry = CollectorRegistry()
        ProcessCollector(registry=own)
        Info("opensandbox_build", "What is running.", registry=own).info({"version": __version__})
        self._creates = Counter(
            "opensandbox_creates",
            "Sandboxes asked for, by how that ended and the error code.",
            ("result", "code"),
            registry=own,
        )
        self._stages = _histogram(own, "stage", "What creates spend their time on.", "stage")
        self._requests = _histogram(
            own, "request", "Requests to the API until their end.", "method", "route", "status"
        )
        self.in_flight = Gauge(
            "opensandbox_requests_in_flight", "Requests being answered.", registry=own
        )
        self._stalls = _histogram(
            own, "event_loop_stall", "How late the event loop came to a timer."
        )
        self._sandboxes = Gauge(
            "opensandbox_sandboxes", "Sandboxes by state.", ("state",), registry=own
        )
        self._open_streams = Gauge(
            "opensandbox_streams_open",
            "Requests and WebSockets between clients and sandboxes, right now.",
            ("kind",),
            registry=own,
        )
        self._streams = Gauge(
            "opensandbox_streams_begun",
            "The same, all since ingress started.",
            ("kind",),
            registry=own,
        )
        self._parts = Gauge(
            "opensandbox_part_up",
            "1 for what works, 0 for what is down: what GET /ready names.",
            ("part",),
            registry=own,
        )

    def saw_stage(self, stage: str, seconds: float) -> None:
        """Take a span of a request."""
        self._stages.labels(stage).observe(seconds)

    def saw_stall(self, seconds: float) -> None:
        """Take how late a timer was."""
        self._stalls.observe(seconds)

    def saw_request(self, outcome: Outcome) -> None:
        """Take a request that has ended."""
        method = outcome.method if outcome.method in METHODS else "other"
        status = f"{outcome.status // 100}xx"
        self._requests.labels(method, outcome.route or "none", status).observe(outcome.seconds)
        if not outcome.is_create:
            return
        code = "" if outcome.result == "ok" else outcome.code
        self._creates.labels(outcome.result, code).inc()
        if outcome.result == "ok":
            self.saw_stage("total", outcome.seconds)

    async def scrape(
        self,
        states: Iterable[SandboxState],
        parts: Mapping[str, bool],
        streams: Mapping[str, Mapping[str, int]],
    ) -> bytes:
        """Write everything down, with the states, parts and streams of this moment."""
        counted = Counted(states)
        for state in SandboxState:
            self._sandboxes.labels(state.value).set(counted[state])
        for name, is_up in parts.items():
            self._parts.labels(name).set(is_up)
        self._open_streams.clear()  # while ingress is away nobody counts them
        for kind, counts in streams.items():
            self._open_streams.labels(kind).set(counts["open"])
            self._streams.labels(kind).set(counts["begun"])
        # Thousands of lines take milliseconds, which the event loop has better use for.
        return await asyncio.to_thread(generate_latest, self.registry)


def _histogram(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Histogram:
    whole = f"opensandbox_{name}_seconds"
    return Histogram(whole, text, labels, buckets=BUCKETS, registry=registry)
