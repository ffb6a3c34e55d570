# SPDX-License-Identifier: Apache-2.0
"""Who may speak to the HTTP server: a known host name, a known origin, and the token.

A page in a browser can send requests to this machine, even under a name of its own that it lets
point here (DNS rebinding). So the Host must be one of ours, an Origin must be allowed, and the
token, which no page knows, must be right.
"""

import hmac
from collections.abc import Collection
from dataclasses import dataclass

from mcp.types import INVALID_REQUEST, UNSUPPORTED_PROTOCOL_VERSION
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Admission:
    """What a request must bring."""

    token: str
    hosts: Collection[str]
    """Values of Host, with the port."""
    origins: Collection[str]
    needs_session: bool = False
    """Whether conversations must have sessions; the newest protocol has none."""

    def refuse(self, headers: Headers) -> Response | None:
        """Return the answer to a request that may not come in."""
        if headers.get("host") not in self.hosts:
            return _refusal(421, "unknown Host; name it with --allow-host")
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins:
            return _refusal(403, "this Origin is not allowed; name it with --allow-origin")
        if not self._has_token(headers):
            refusal = _refusal(401, "send the server's token: Authorization: Bearer TOKEN")
            refusal.headers["WWW-Authenticate"] = "Bearer"
            return refusal
        version = headers.get("mcp-protocol-version")
        if self.needs_session and version and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return _old_protocol(version)
        return None

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_equal = hmac.compare_digest(given.strip().encode(), self.token.encode())
        return is_equal and scheme.lower() == "bearer"


class AdmissionMiddleware:
    """Lets through what may come in."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        """Stand before ``app``."""
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request here, or let the application answer it."""
        if scope["type"] == "http":
            refusal = self._admission.refuse(Headers(scope=scope))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def known_hosts(host: str, port: int, allowed: Collection[str]) -> set[str]:
    """Return what Host may say for a server on this address."""
    # A page can let a name of its own point here, but never one of these.
    names = {*allowed, *LOOPBACK_NAMES, f"[{host}]" if ":" in host else host}
    return {*allowed, *(f"{name}:{port}" for name in names)}


def _refusal(status: int, message: str) -> Response:
    error = {"code": INVALID_REQUEST, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status)


def _old_protocol(requested: str) -> Response:
    # The client takes this as an invitation to open a session with the handshake.
    error = {
        "code": UNSUPPORTED_PROTOCOL_VERSION,
        "message": "a workspace needs a session; use the initialize handshake",
        "data": {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": requested},
    }
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)
