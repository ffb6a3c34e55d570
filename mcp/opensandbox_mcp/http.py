# SPDX-License-Identifier: Apache-2.0
"""Serves clients over streamable HTTP, each with its own session, until a signal comes."""

import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from opensandbox_mcp.admission import Admission, AdmissionMiddleware, known_hosts
from opensandbox_mcp.sandboxes import SESSION_HEADER
from opensandbox_mcp.server import SandboxServer

PATH = "/mcp"
DRAIN_SECONDS = 3  # bounds waiting for open requests at the end
IDLE_SECONDS = 30 * 60.0  # a session without a workspace ends when nobody used it for so long


@dataclass(frozen=True)
class HTTPSettings:
    """Where to listen and whom to let in."""

    host: str
    port: int
    token: str
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()


def serve_http(server: SandboxServer, settings: HTTPSettings) -> None:
    """Serve until SIGTERM or SIGINT."""
    with _listen(settings.host, settings.port) as listener:
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            build_app(server, settings, port),
            log_level="warning",
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
        # uvicorn raises the signal that ended it once more, after everything is closed.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        print(f"opensandbox-mcp: listening on http://{shown}:{port}{PATH}", file=sys.stderr)
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            return


def build_app(server: SandboxServer, settings: HTTPSettings, port: int) -> ASGIApp:
    """Wire the application: admission, the end of sessions, the SDK's own."""
    workspace = server.config.workspace
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        session_idle_timeout=workspace.timeout.total_seconds() if workspace else IDLE_SECONDS,
        # The admission below is stricter.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    hosts = known_hosts(settings.host, port, settings.allowed_hosts)
    admission = Admission(
        token=settings.token,
        hosts=hosts,
        origins={*settings.allowed_origins, *(f"http://{host}" for host in hosts)},
        needs_session=workspace is not None,
    )
    return AdmissionMiddleware(_EndedSessions(app, server), admission)


class _EndedSessions:
    """Ends the workspace of a session that its client ends."""

    def __init__(self, app: ASGIApp, server: SandboxServer) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope["type"] != "http" or scope["method"] != "DELETE":
            return
        sandboxes = self._server.sandboxes
        session = Headers(scope=scope).get(SESSION_HEADER)
        if session and sandboxes is not None and sandboxes.workspaces is not None:
            await sandboxes.workspaces.end(session)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)
