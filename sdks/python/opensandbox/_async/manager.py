# SPDX-License-Identifier: Apache-2.0
"""The lifecycle API, for sandboxes one does not hold."""

from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from pydantic import TypeAdapter

from opensandbox._failures import read_answer, refused_arguments
from opensandbox._requests import sandbox_query, segment, snapshot_query, template_query
from opensandbox.config import ConnectionConfig
from opensandbox.models.diagnostics import DiagnosticContent
from opensandbox.models.sandboxes import (
    CreateSnapshotRequest,
    MetadataPatch,
    PagedSandboxInfos,
    PagedSnapshotInfos,
    RenewExpirationRequest,
    SandboxEndpoint,
    SandboxFilter,
    SandboxInfo,
    SandboxRenewResponse,
    SnapshotFilter,
    SnapshotInfo,
)
from opensandbox.models.templates import (
    CreateTemplateRequest,
    PagedTemplateInfos,
    TemplateFilter,
    TemplateInfo,
)

from .transport import Transport

ORIGIN_HEADER = "OPEN-SANDBOX-ORIGIN"

_INFO = TypeAdapter(SandboxInfo)
_PAGE = TypeAdapter(PagedSandboxInfos)
_RENEWED = TypeAdapter(SandboxRenewResponse)
_ENDPOINT = TypeAdapter(SandboxEndpoint)
_DIAGNOSTICS = TypeAdapter(DiagnosticContent)
_SNAPSHOT = TypeAdapter(SnapshotInfo)
_SNAPSHOTS = TypeAdapter(PagedSnapshotInfos)
_TEMPLATE = TypeAdapter(TemplateInfo)
_TEMPLATES = TypeAdapter(PagedTemplateInfos)


class SandboxManager:
    """Lists, inspects and ends sandboxes by their ids."""

    def __init__(self, transport: Transport) -> None:
        """Send through ``transport``; most callers want ``create``."""
        self._transport = transport
        self._server = transport.to(transport.config.lifecycle)

    @classmethod
    async def create(cls, connection_config: ConnectionConfig | None = None) -> Self:
        """Make a manager; close it when done."""
        return cls(Transport(connection_config or ConnectionConfig()))

    @property
    def connection_config(self) -> ConnectionConfig:
        """How this manager connects."""
        return self._transport.config

    async def list_sandbox_infos(self, filter: SandboxFilter) -> PagedSandboxInfos:  # noqa: A002
        """Return one page of the sandboxes that match, newest first."""
        return await self._server.ask(_PAGE, "GET", "/sandboxes", query=sandbox_query(filter))

    async def get_sandbox_info(self, sandbox_id: str) -> SandboxInfo:
        """Return a sandbox as it is now."""
        return await self._server.ask(_INFO, "GET", _path(sandbox_id))

    async def patch_sandbox_metadata(self, sandbox_id: str, patch: MetadataPatch) -> SandboxInfo:
        """Set metadata; None removes a key."""
        return await self._server.ask(_INFO, "PATCH", _path(sandbox_id, "/metadata"), json=patch)

    async def kill_sandbox(self, sandbox_id: str) -> None:
        """End a sandbox; nothing of it is left."""
        await self._server.send("DELETE", _path(sandbox_id))

    async def pause_sandbox(self, sandbox_id: str) -> None:
        """Freeze every process of a sandbox."""
        await self._server.send("POST", _path(sandbox_id, "/pause"))

    async def resume_sandbox(self, sandbox_id: str) -> None:
        """Let a paused sandbox go on."""
        await self._server.send("POST", _path(sandbox_id, "/resume"))

    async def renew_sandbox(self, sandbox_id: str, timeout: timedelta) -> SandboxRenewResponse:
        """Let a sandbox live for ``timeout`` from now, be it longer or shorter than before."""
        body = RenewExpirationRequest(expires_at=datetime.now(UTC) + timeout).to_wire()
        path = _path(sandbox_id, "/renew-expiration")
        return await self._server.ask(_RENEWED, "POST", path, json=body)

    async def get_sandbox_endpoint(
        self, sandbox_id: str, port: int, *, expires: int | None = None
    ) -> SandboxEndpoint:
        """Return the endpoint of a port; with ``expires`` (Unix seconds) it needs no token."""
        uses_proxy = self.connection_config.use_server_proxy
        query = [("use_server_proxy", str(uses_proxy).lower())]
        if expires is not None:
            query.append(("expires", str(expires)))
        path = _path(sandbox_id, f"/endpoints/{int(port)}")
        response = await self._server.send("GET", path, query=query)
        endpoint = read_answer(_ENDPOINT, response)
        endpoint.origin = response.headers.get(ORIGIN_HEADER)
        return endpoint

    async def get_diagnostic_logs(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        """Return the logs of a scope: ``container`` or ``all``."""
        path = _path(sandbox_id, "/diagnostics/logs")
        return await self._server.ask(_DIAGNOSTICS, "GET", path, query=[("scope", scope)])

    async def get_diagnostic_events(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        """Return the events of a scope: ``runtime`` or ``all``."""
        path = _path(sandbox_id, "/diagnostics/events")
        return await self._server.ask(_DIAGNOSTICS, "GET", path, query=[("scope", scope)])

    async def get_diagnostic_text(
        self, sandbox_id: str, view: str, **options: int | str | None
    ) -> str:
        """Return a page for people: ``logs``, ``events``, ``inspect`` or ``summary``."""
        path = _path(sandbox_id, f"/diagnostics/{segment(view, 'view')}")
        query = [(name, str(value)) for name, value in options.items() if value is not None]
        return (await self._server.send("GET", path, query=query)).text

    async def create_snapshot(self, sandbox_id: str, name: str | None = None) -> SnapshotInfo:
        """Begin to keep the file system of a sandbox; ``get_snapshot`` tells when it is ready."""
        with refused_arguments():
            body = CreateSnapshotRequest(name=name).to_wire()
        return await self._server.ask(_SNAPSHOT, "POST", _path(sandbox_id, "/snapshots"), json=body)

    async def get_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """Return a snapshot as it is now."""
        return await self._server.ask(_SNAPSHOT, "GET", _snapshot(snapshot_id))

    async def list_snapshots(self, filter: SnapshotFilter) -> PagedSnapshotInfos:  # noqa: A002
        """Return one page of the snapshots that match, newest first."""
        return await self._server.ask(_SNAPSHOTS, "GET", "/snapshots", query=snapshot_query(filter))

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Forget a snapshot. Sandboxes made of it go on."""
        await self._server.send("DELETE", _snapshot(snapshot_id))

    async def create_template(self, request: CreateTemplateRequest) -> TemplateInfo:
        """Begin to make a template of an image; ``get_template`` tells when it is there."""
        return await self._server.ask(_TEMPLATE, "POST", "/templates", json=request.to_wire())

    async def get_template(self, template_id: str) -> TemplateInfo:
        """Return a template as it is now."""
        return await self._server.ask(_TEMPLATE, "GET", _template(template_id))

    async def list_templates(self, filter: TemplateFilter) -> PagedTemplateInfos:  # noqa: A002
        """Return one page of the templates that match."""
        return await self._server.ask(_TEMPLATES, "GET", "/templates", query=template_query(filter))

    async def delete_template(self, template_id: str) -> None:
        """Forget a template. Sandboxes made of it go on."""
        await self._server.send("DELETE", _template(template_id))

    async def close(self) -> None:
        """Close the connections. Sandboxes go on."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _path(sandbox_id: str, rest: str = "") -> str:
    return f"/sandboxes/{segment(sandbox_id, 'sandbox_id')}{rest}"


def _snapshot(snapshot_id: str) -> str:
    return f"/snapshots/{segment(snapshot_id, 'snapshot_id')}"


def _template(template_id: str) -> str:
    return f"/templates/{segment(template_id, 'template_id')}"
