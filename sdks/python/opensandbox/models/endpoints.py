# SPDX-License-Identifier: Apache-2.0
"""The endpoint of a port inside a sandbox."""

from pydantic import Field

from opensandbox.models.wire import WireModel

EXECD_PORT = 44772
EGRESS_PORT = 18080
HTTP_PORT = 8080


class SandboxEndpoint(WireModel):
    """An address without a scheme, ``host[:port][/path]``, and the headers that open it."""

    endpoint: str
    headers: dict[str, str] = Field(default_factory=dict, exclude_if=lambda headers: not headers)
    origin: str | None = None
    """What made the sandbox. The server says it in a header, never in the body."""
