# SPDX-License-Identifier: Apache-2.0
"""Keeping the file system of a sandbox, and making sandboxes of what was kept."""

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, Field

from opensandbox.models.sandboxes import PagedSnapshotInfos, SnapshotFilter, SnapshotInfo
from opensandbox_mcp.results import HeldSandbox, Status
from opensandbox_mcp.sandboxes import Call, sandboxes_of
from opensandbox_mcp.toolbox import Effect, Family, Mode, SandboxId
from opensandbox_mcp.tools.lifecycle import ReadyTimeout, StringMap, TimeToLive, hold_created

family = Family()

SnapshotId = Annotated[str, Field(description="The id in the result of snapshot_create.")]
SnapshotName = Annotated[str | None, Field(min_length=1, description="To find it by.")]


class SnapshotQuery(BaseModel):
    """Which snapshots to list."""

    sandbox_id: str | None = None
    name: str | None = None
    states: list[str] | None = None
    page_size: int | None = Field(default=None, ge=1, le=200)
    page: int | None = Field(default=None, ge=1)


WhichOnes = Annotated[SnapshotQuery | None, Field(description="Which ones; all when left out.")]


@family.tool(Effect.CHANGES)
async def snapshot_create(
    call: Call, sandbox_id: SandboxId, name: SnapshotName = None
) -> SnapshotInfo:
    """Begin to keep the file system of a sandbox; snapshot_get tells when it is Ready."""
    async with sandboxes_of(call).id_of(call, sandbox_id) as found:
        return await sandboxes_of(call).manager.create_snapshot(found, name)


@family.tool(Effect.READS)
async def snapshot_get(call: Call, snapshot_id: SnapshotId) -> SnapshotInfo:
    """Tell the state of a snapshot and where it came from."""
    return await sandboxes_of(call).manager.get_snapshot(snapshot_id)


@family.tool(Effect.READS)
async def snapshot_list(
    call: Call,
    filter: WhichOnes = None,  # noqa: A002
) -> PagedSnapshotInfos:
    """List snapshots, newest first, a page at a time."""
    wanted = SnapshotFilter(**filter.model_dump()) if filter else SnapshotFilter()
    return await sandboxes_of(call).manager.list_snapshots(wanted)


@family.tool(Effect.CHANGES, Mode.BY_ID)
async def snapshot_restore(
    call: Call,
    snapshot_id: SnapshotId,
    timeout_seconds: TimeToLive = 600,
    ready_timeout_seconds: ReadyTimeout = 30,
    env: Annotated[StringMap, Field(description="Variables of every process in it.")] = None,
    metadata: Annotated[StringMap, Field(description="Labels to find it by.")] = None,
) -> HeldSandbox:
    """Create a sandbox from a snapshot and return its id."""
    return await hold_created(
        call,
        snapshot_id=snapshot_id,
        timeout=timedelta(seconds=timeout_seconds),
        ready_timeout=timedelta(seconds=ready_timeout_seconds),
        env=env,
        metadata=metadata,
    )


@family.tool(Effect.DESTROYS)
async def snapshot_delete(call: Call, snapshot_id: SnapshotId) -> Status:
    """Delete a snapshot; sandboxes made from it go on."""
    await sandboxes_of(call).manager.delete_snapshot(snapshot_id)
    return Status(status="deleted")
