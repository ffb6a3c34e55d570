# SPDX-License-Identifier: Apache-2.0
"""What is being worked on right now, for whoever writes a line about it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

from opensandbox_server.telemetry.spans import current_trace

_sandbox_id: ContextVar[str] = ContextVar("sandbox_id", default="")


@contextlib.contextmanager
def about(sandbox_id: str) -> Iterator[None]:
    """Let what happens inside, and the request it is done for, be about this sandbox."""
    if trace := current_trace():
        trace.sandbox_id = sandbox_id
    before = _sandbox_id.set(sandbox_id)
    try:
        yield
    finally:
        _sandbox_id.reset(before)


def known_ids() -> Mapping[str, str]:
    """Return the ids of the request, the trace and the sandbox, as far as there are any."""
    trace, sandbox_id = current_trace(), _sandbox_id.get()
    if trace is None:
        ids = {"sandbox_id": sandbox_id}
    else:
        ids = {
            "request_id": trace.request_id,
            "trace_id": trace.trace_id,
            "sandbox_id": sandbox_id or trace.sandbox_id,
        }
    return {name: value for name, value in ids.items() if value}
