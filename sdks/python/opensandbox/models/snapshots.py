# SPDX-License-Identifier: Apache-2.0
"""Snapshots: the file system of a sandbox, kept."""

from datetime import datetime

from pydantic import Field

from opensandbox.models.pages import PaginationInfo
from opensandbox.models.wire import WireModel


class SnapshotStatus(WireModel):
    """What a snapshot is seen to be: Creating, Ready, Failed, Deleting."""

    state: str
    reason: str | None = None
    message: str | None = None
    last_transition_at: datetime | None = None


class SnapshotInfo(WireModel):
    """A snapshot and where it came from."""

    id: str
    sandbox_id: str
    name: str | None = None
    status: SnapshotStatus
    created_at: datetime


class CreateSnapshotRequest(WireModel):
    """Request for a snapshot, with a name or without."""

    name: str | None = Field(default=None, min_length=1)


class SnapshotFilter(WireModel):
    """Which snapshots to list."""

    sandbox_id: str | None = None
    name: str | None = None
    states: list[str] | None = None
    page_size: int | None = Field(default=None, ge=1, le=200)
    page: int | None = Field(default=None, ge=1)


class PagedSnapshotInfos(WireModel):
    """One page of snapshots, newest first."""

    snapshot_infos: list[SnapshotInfo] = Field(
        validation_alias="items", serialization_alias="items"
    )
    pagination: PaginationInfo
