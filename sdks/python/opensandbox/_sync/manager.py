# SPDX-License-Identifier: Apache-2.0
# Made from _async/manager.py by scripts/unasync.py; change it there.
"""The lifecycle API, for sandboxes one does not hold."""

from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from pydantic import TypeAdapter

from opensandbox._failures import read_answer
from opensandbox._requests import sandbox_query, segment
from opensandbox.config import ConnectionConfigSync
from opensandbox.models.diagnostics import DiagnosticContent
from opensandbox.models.sandboxes import (
    MetadataPatch,
    PagedSandboxInfos,
    RenewExpirationRequest,
    SandboxEndpoint,
    SandboxFilter,
    SandboxInfo,
    SandboxRenewResponse,
)

from .transport import Transport

ORIGIN_HEADER = "OPEN-SANDBOX-ORIGIN"

_INFO = TypeAdapter(SandboxInfo)
_PAGE = TypeAdapter(PagedSandboxInfos)
_RENEWED = TypeAdapter(SandboxRenewResponse)
_ENDPOINT = TypeAdapter(SandboxEndpoint)
_DIAGNOSTICS = TypeAdapter(DiagnosticContent)


class SandboxManagerSync:
    """Lists, inspects and ends sandboxes by their ids."""

    def __init__(self, transport: Transport) -> None:
        """Send through ``transport``; most callers want ``create``."""
        self._transport = transport
        self._server = transport.to(transport.config.lifecycle)

    @classmethod
    def create(cls, connection_config: ConnectionConfigSync | None = None) -> Self:
        """Make a manager; close it when done."""
        return cls(Transport(connection_config or ConnectionConfigSync()))

    @property
    def connection_config(self) -> ConnectionConfigSync:
        """How this manager connects."""
        return self._transport.config

    def list_sandbox_infos(self, filter: SandboxFilter) -> PagedSandboxInfos:  # noqa: A002
        """Return one page of the sandboxes that match, newest first."""
        return self._server.ask(_PAGE, "GET", "/sandboxes", query=sandbox_query(filter))

    def get_sandbox_info(self, sandbox_id: str) -> SandboxInfo:
        """Return a sandbox as it is now."""
        return self._server.ask(_INFO, "GET", _path(sandbox_id))

    def patch_sandbox_metadata(self, sandbox_id: str, patch: MetadataPatch) -> SandboxInfo:
        """Set metadata; None removes a key."""
        return self._server.ask(_INFO, "PATCH", _path(sandbox_id, "/metadata"), json=patch)

    def kill_sandbox(self, sandbox_id: str) -> None:
        """End a sandbox; nothing of it is left."""
        self._server.send("DELETE", _path(sandbox_id))

    def pause_sandbox(self, sandbox_id: str) -> None:
        """Freeze every process of a sandbox."""
        self._server.send("POST", _path(sandbox_id, "/pause"))

    def resume_sandbox(self, sandbox_id: str) -> None:
        """Let a paused sandbox go on."""
        self._server.send("POST", _path(sandbox_id, "/resume"))

    def renew_sandbox(self, sandbox_id: str, timeout: timedelta) -> SandboxRenewResponse:
        """Let a sandbox live for ``timeout`` from now, be it longer or shorter than before."""
        body = RenewExpirationRequest(expires_at=datetime.now(UTC) + timeout).to_wire()
        path = _path(sandbox_id, "/renew-expiration")
        return self._server.ask(_RENEWED, "POST", path, json=body)

    def get_sandbox_endpoint(
        self, sandbox_id: str, port: int, *, expires: int | None = None
    ) -> SandboxEndpoint:
        """Return the way to a port; ``expires`` (Unix seconds) asks for one that needs no token."""
        uses_proxy = self.connection_config.use_server_proxy
        query = [("use_server_proxy", str(uses_proxy).lower())]
        if expires is not None:
            query.append(("expires", str(expires)))
        path = _path(sandbox_id, f"/endpoints/{int(port)}")
        response = self._server.send("GET", path, query=query)
        endpoint = read_answer(_ENDPOINT, response)
        endpoint.origin = response.headers.get(ORIGIN_HEADER)
        return endpoint

    def get_diagnostic_logs(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        """Return the logs of a scope: ``container`` or ``all``."""
        path = _path(sandbox_id, "/diagnostics/logs")
        return self._server.ask(_DIAGNOSTICS, "GET", path, query=[("scope", scope)])

    def get_diagnostic_events(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        """Return the events of a scope: ``runtime`` or ``all``."""
        path = _path(sandbox_id, "/diagnostics/events")
        return self._server.ask(_DIAGNOSTICS, "GET", path, query=[("scope", scope)])

    def close(self) -> None:
        """Close the connections. Sandboxes go on."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _path(sandbox_id: str, rest: str = "") -> str:
    return f"/sandboxes/{segment(sandbox_id, 'sandbox_id')}{rest}"
