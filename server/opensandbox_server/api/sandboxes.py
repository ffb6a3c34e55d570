# SPDX-License-Identifier: Apache-2.0
"""Routes of sandboxes."""

import time
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from opensandbox.models import (
    CreateSandboxRequest,
    MetadataPatch,
    PagedSandboxInfos,
    RenewExpirationRequest,
    SandboxCreateResponse,
    SandboxEndpoint,
    SandboxInfo,
    SandboxRenewResponse,
)
from opensandbox_server.api.depends import EndpointsDep, OriginDep, PrincipalDep, SandboxesDep
from opensandbox_server.api.views import created, info_of, page_of
from opensandbox_server.errors import InvalidParameter
from opensandbox_server.sandboxes.metadata import parse_filter
from opensandbox_server.telemetry.spans import current_trace

router = APIRouter(tags=["sandboxes"])

Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=255)]
Page = Annotated[int, Query(ge=1)]
PageSize = Annotated[int, Query(alias="pageSize", ge=1, le=200)]


@router.post("/sandboxes", status_code=202, response_model_exclude_none=True)
async def create_sandbox(
    body: CreateSandboxRequest,
    response: Response,
    sandboxes: SandboxesDep,
    by: PrincipalDep,
    endpoints: EndpointsDep,
    origin: OriginDep,
    key: Key = None,
) -> SandboxCreateResponse:
    """Make a sandbox; it is usable when the answer comes."""
    sandbox = await sandboxes.create(by, body, key)
    if trace := current_trace():
        trace.sandbox_id = sandbox.stored.id
        response.headers["Server-Timing"] = trace.server_timing()
    return created(sandbox, endpoints, origin)


@router.get("/sandboxes", response_model_exclude_none=True)
async def list_sandboxes(
    sandboxes: SandboxesDep,
    by: PrincipalDep,
    state: Annotated[list[str] | None, Query()] = None,
    metadata: str = "",
    page: Page = 1,
    page_size: PageSize = 20,
) -> PagedSandboxInfos:
    """List sandboxes, newest first."""
    found = await sandboxes.list(by, state or [], parse_filter(metadata))
    return page_of(found, page, page_size)


@router.get("/sandboxes/{sandbox_id}", response_model_exclude_none=True)
async def get_sandbox(sandbox_id: str, sandboxes: SandboxesDep, by: PrincipalDep) -> SandboxInfo:
    """Show one sandbox."""
    return info_of(await sandboxes.get(by, sandbox_id))


@router.patch("/sandboxes/{sandbox_id}/metadata", response_model_exclude_none=True)
async def patch_metadata(
    sandbox_id: str, body: MetadataPatch, sandboxes: SandboxesDep, by: PrincipalDep
) -> SandboxInfo:
    """Set tags, or remove those given as null."""
    return info_of(await sandboxes.patch_metadata(by, sandbox_id, body))


@router.delete("/sandboxes/{sandbox_id}", status_code=204)
async def delete_sandbox(sandbox_id: str, sandboxes: SandboxesDep, by: PrincipalDep) -> None:
    """End a sandbox and everything of it."""
    await sandboxes.delete(by, sandbox_id)


@router.post("/sandboxes/{sandbox_id}/pause", status_code=202, response_class=Response)
async def pause_sandbox(sandbox_id: str, sandboxes: SandboxesDep, by: PrincipalDep) -> None:
    """Freeze a running sandbox."""
    await sandboxes.pause(by, sandbox_id)


@router.post("/sandboxes/{sandbox_id}/resume", status_code=202, response_class=Response)
async def resume_sandbox(sandbox_id: str, sandboxes: SandboxesDep, by: PrincipalDep) -> None:
    """Let a paused sandbox go on."""
    await sandboxes.resume(by, sandbox_id)


@router.post("/sandboxes/{sandbox_id}/renew-expiration", response_model_exclude_none=True)
async def renew_sandbox(
    sandbox_id: str, body: RenewExpirationRequest, sandboxes: SandboxesDep, by: PrincipalDep
) -> SandboxRenewResponse:
    """Choose when a sandbox ends."""
    return SandboxRenewResponse(expires_at=await sandboxes.renew(by, sandbox_id, body.expires_at))


@router.get("/sandboxes/{sandbox_id}/endpoints/{port}", response_model_exclude_none=True)
async def get_endpoint(
    sandbox_id: str,
    port: int,
    sandboxes: SandboxesDep,
    by: PrincipalDep,
    endpoints: EndpointsDep,
    origin: OriginDep,
    use_server_proxy: bool = False,
    expires: int | None = None,
) -> SandboxEndpoint:
    """Tell how to reach a port of a sandbox."""
    stored = (await sandboxes.get(by, sandbox_id)).stored
    if expires is None:
        return endpoints.of(stored, port, origin, via_api=use_server_proxy)
    if use_server_proxy:
        raise InvalidParameter("expires cannot be used with use_server_proxy.")
    return endpoints.signed(stored, port, origin, expires, time.time())
