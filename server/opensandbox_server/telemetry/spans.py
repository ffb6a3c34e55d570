# SPDX-License-Identifier: Apache-2.0
"""Where the time of a request goes: `with span("runtime"):` around whatever takes some.

A request has one trace, in a context variable: what is done for it anywhere below, in tasks of its
own too, adds to it without being handed anything. Outside of a request a span measures nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar

OnSpan = Callable[[str, float], None]
"""Hears the name of a span and how many seconds it took."""

Export = Callable[[str], AbstractContextManager[None]]
"""Is entered with the name of a span, and left at its end."""


class Trace:
    """The spans of one request by name; a name used twice adds up."""

    __slots__ = ("_began", "_on_span", "_spans", "export", "request_id", "sandbox_id", "trace_id")

    def __init__(self, request_id: str, on_span: OnSpan | None = None) -> None:
        """Begin now; on_span hears of every span at its end."""
        self.request_id = request_id
        self.trace_id = ""
        """Of the trace over several programs that this is part of; empty when it is of none."""
        self.sandbox_id = ""
        """Of the sandbox that it is about; empty while that is not known."""
        self.export: Export | None = None
        """Who exports each span; None when nobody does."""
        self._began = time.perf_counter()
        self._spans: dict[str, float] = {}
        self._on_span = on_span

    @property
    def seconds(self) -> float:
        """How long it goes on already."""
        return time.perf_counter() - self._began

    def add(self, name: str, seconds: float) -> None:
        """Take a span that has ended."""
        self._spans[name] = self._spans.get(name, 0.0) + seconds
        if self._on_span:
            self._on_span(name, seconds)

    def server_timing(self) -> str:
        """Write the total until now and all spans, in milliseconds, as the header has them."""
        spans = {"total": self.seconds, **self._spans}
        return ", ".join(f"{name};dur={1000 * seconds:.3f}" for name, seconds in spans.items())


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


def begin(trace: Trace) -> None:
    """Let this be the trace of what the present task does from now on."""
    _current.set(trace)


def current_trace() -> Trace | None:
    """Return the trace of the request that is being answered; None when it is none."""
    return _current.get()


@contextlib.contextmanager
def span(name: str) -> Iterator[None]:
    """Measure what happens inside, faults and all. Names are few and fixed: metrics have them."""
    trace = _current.get()
    if trace is None:
        yield
        return
    began = time.perf_counter()
    try:
        with trace.export(name) if trace.export else contextlib.nullcontext():
            yield
    finally:
        trace.add(name, time.perf_counter() - began)
