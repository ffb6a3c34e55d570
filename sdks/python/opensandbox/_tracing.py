# SPDX-License-Identifier: Apache-2.0
"""Lets a trace go on in the server: the W3C ``traceparent`` header."""

import secrets
from importlib.util import find_spec

TRACEPARENT = "traceparent"


def trace_headers() -> dict[str, str]:
    """Return the headers of the current trace; outside of any, of a new one."""
    headers: dict[str, str] = {}
    if find_spec("opentelemetry") is not None:
        from opentelemetry.propagate import inject

        inject(headers)
    if TRACEPARENT not in headers:
        headers[TRACEPARENT] = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
    return headers
