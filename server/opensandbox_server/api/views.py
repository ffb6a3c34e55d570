# SPDX-License-Identifier: Apache-2.0
"""Sandboxes as the API shows them. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Sequence

from opensandbox.models import (
    PagedSandboxInfos,
    PaginationInfo,
    PlatformSpec,
    SandboxCreateResponse,
    SandboxEndpoint,
    SandboxImageSpec,
    SandboxInfo,
)
from opensandbox.models.endpoints import EGRESS_PORT, EXECD_PORT
from opensandbox_server.ingress.endpoints import Endpoints, RequestOrigin
from opensandbox_server.sandboxes.admission import kept_extensions
from opensandbox_server.sandboxes.sandbox import Sandbox
from opensandbox_server.store.stored import StoredSandbox


def info_of(sandbox: Sandbox) -> SandboxInfo:
    """Return what get, list and patch answer."""
    stored = sandbox.stored
    return SandboxInfo(
        id=stored.id,
        status=sandbox.status.to_wire(),
        entrypoint=list(stored.spec.entrypoint),
        created_at=stored.created_at,
        expires_at=stored.expires_at,
        image=SandboxImageSpec(stored.spec.image),
        platform=_platform(stored),
        metadata=dict(stored.metadata) or None,
        extensions=kept_extensions(stored.extensions) or None,
    )


def created(sandbox: Sandbox, endpoints: Endpoints, origin: RequestOrigin) -> SandboxCreateResponse:
    """Return what create answers, with the endpoints every client asks for next."""
    stored = sandbox.stored
    return SandboxCreateResponse(
        id=stored.id,
        status=sandbox.status.to_wire(),
        entrypoint=list(stored.spec.entrypoint),
        created_at=stored.created_at,
        expires_at=stored.expires_at,
        platform=_platform(stored),
        metadata=dict(stored.metadata) or None,
        extensions=kept_extensions(stored.extensions) or None,
        endpoints=_own_ports(stored, endpoints, origin),
    )


def page_of(found: Sequence[Sandbox], page: int, page_size: int) -> PagedSandboxInfos:
    """Cut one page out of what was found."""
    first = (page - 1) * page_size
    return PagedSandboxInfos(
        sandbox_infos=[info_of(sandbox) for sandbox in found[first : first + page_size]],
        pagination=PaginationInfo.of(page=page, page_size=page_size, total_items=len(found)),
    )


def _own_ports(
    stored: StoredSandbox, endpoints: Endpoints, origin: RequestOrigin
) -> dict[str, SandboxEndpoint]:
    return {str(port): endpoints.of(stored, port, origin) for port in (EXECD_PORT, EGRESS_PORT)}


def _platform(stored: StoredSandbox) -> PlatformSpec | None:
    if stored.spec.platform is None:
        return None
    system, architecture = stored.spec.platform
    return PlatformSpec.model_validate({"os": system, "arch": architecture})
