# SPDX-License-Identifier: Apache-2.0
"""Routes of the contract that this version does not have yet: each says so with its code."""

from fastapi import APIRouter

from opensandbox_server.api.depends import PrincipalDep, SandboxesDep
from opensandbox_server.errors import NotBuilt, PoolsNotBuilt, SnapshotsNotBuilt, TemplatesNotBuilt

# specs/lifecycle.yaml describes them; the generated pages show what works.
router = APIRouter(include_in_schema=False)


@router.post("/sandboxes/{sandbox_id}/snapshots", status_code=501)
async def create_snapshot(sandbox_id: str, sandboxes: SandboxesDep, by: PrincipalDep) -> None:
    """Keep the file system of a sandbox."""
    await sandboxes.get(by, sandbox_id)
    raise SnapshotsNotBuilt("This server has no snapshots yet.")


@router.api_route("/snapshots", methods=["GET"], status_code=501)
@router.api_route("/snapshots/{snapshot_id}", methods=["GET", "DELETE"], status_code=501)
async def snapshots() -> None:
    """List, show and delete snapshots."""
    raise SnapshotsNotBuilt("This server has no snapshots yet.")


@router.api_route("/templates", methods=["GET", "POST"], status_code=501)
@router.api_route("/templates/{template_id}", methods=["GET", "DELETE"], status_code=501)
async def templates() -> None:
    """Make, list, show and delete templates."""
    raise TemplatesNotBuilt("This server has no templates yet.")


@router.api_route("/pools", methods=["GET", "POST"], status_code=501)
@router.api_route("/pools/{name}", methods=["GET", "PUT", "DELETE"], status_code=501)
async def pools() -> None:
    """Make, list, show, change and delete warm pools."""
    raise PoolsNotBuilt("This server has no warm pools yet.")


@router.api_route(
    "/sandboxes/{sandbox_id}/networkpolicy",
    methods=["GET", "PUT", "PATCH", "DELETE"],
    status_code=501,
)
async def network_policy(sandbox_id: str, sandboxes: SandboxesDep, by: PrincipalDep) -> None:
    """Show and change what may go out of a sandbox."""
    await sandboxes.get(by, sandbox_id)
    raise NotBuilt("This server has no egress control yet.")
