# SPDX-License-Identifier: Apache-2.0
"""Sandboxes as the lifecycle API shows them, and every model that has to do with them."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from opensandbox.models.creation import CreateSandboxRequest
from opensandbox.models.credentials import (
    Credential,
    CredentialAuth,
    CredentialAuthMetadata,
    CredentialBinding,
    CredentialBindingListResponse,
    CredentialBindingMetadata,
    CredentialBindingMutationSet,
    CredentialListResponse,
    CredentialMatch,
    CredentialMetadata,
    CredentialMutationSet,
    CredentialSubstitution,
    CredentialVaultCreateRequest,
    CredentialVaultPatchRequest,
    CredentialVaultState,
    CustomHeaderEntry,
    InlineCredentialSource,
)
from opensandbox.models.endpoints import SandboxEndpoint
from opensandbox.models.hooks import LifecycleHook, PeriodicLifecycleHook, SandboxLifecycle
from opensandbox.models.images import PlatformSpec, SandboxImageAuth, SandboxImageSpec
from opensandbox.models.networks import (
    CredentialProxyConfig,
    NetworkPolicy,
    NetworkPolicyStatus,
    NetworkRule,
)
from opensandbox.models.pages import PaginationInfo
from opensandbox.models.snapshots import (
    CreateSnapshotRequest,
    PagedSnapshotInfos,
    SnapshotFilter,
    SnapshotInfo,
    SnapshotStatus,
)
from opensandbox.models.volumes import OSSFS, PVC, Host, Volume
from opensandbox.models.wire import Time, WireModel

__all__ = [
    "OSSFS",
    "PVC",
    "CreateSandboxRequest",
    "CreateSnapshotRequest",
    "Credential",
    "CredentialAuth",
    "CredentialAuthMetadata",
    "CredentialBinding",
    "CredentialBindingListResponse",
    "CredentialBindingMetadata",
    "CredentialBindingMutationSet",
    "CredentialListResponse",
    "CredentialMatch",
    "CredentialMetadata",
    "CredentialMutationSet",
    "CredentialProxyConfig",
    "CredentialSubstitution",
    "CredentialVaultCreateRequest",
    "CredentialVaultPatchRequest",
    "CredentialVaultState",
    "CustomHeaderEntry",
    "Host",
    "InlineCredentialSource",
    "LifecycleHook",
    "MetadataPatch",
    "NetworkPolicy",
    "NetworkPolicyStatus",
    "NetworkRule",
    "PagedSandboxInfos",
    "PagedSnapshotInfos",
    "PaginationInfo",
    "PeriodicLifecycleHook",
    "PlatformSpec",
    "RenewExpirationRequest",
    "SandboxAllocation",
    "SandboxCreateResponse",
    "SandboxEndpoint",
    "SandboxFilter",
    "SandboxImageAuth",
    "SandboxImageSpec",
    "SandboxInfo",
    "SandboxLifecycle",
    "SandboxMetrics",
    "SandboxOrigin",
    "SandboxRenewResponse",
    "SandboxState",
    "SandboxStatus",
    "SnapshotFilter",
    "SnapshotInfo",
    "SnapshotStatus",
    "Volume",
]


class SandboxState(StrEnum):
    """What a sandbox may be seen to be. The wire has an open string: expect others too."""

    PENDING = "Pending"
    RUNNING = "Running"
    PAUSING = "Pausing"
    PAUSED = "Paused"
    RESUMING = "Resuming"
    STOPPING = "Stopping"
    TERMINATED = "Terminated"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @classmethod
    def values(cls) -> set[str]:
        """Return the states known here."""
        return {state.value for state in cls}


class SandboxOrigin(StrEnum):
    """What a sandbox was made from, where that matters to a client."""

    TEMPLATE = "template"
    UNKNOWN = "unknown"

    @classmethod
    def values(cls) -> set[str]:
        """Return the origins known here."""
        return {origin.value for origin in cls}


class SandboxStatus(WireModel):
    """The state of a sandbox, why, and since when."""

    state: str
    reason: str | None = None
    message: str | None = None
    last_transition_at: datetime | None = None


class SandboxAllocation(WireModel):
    """Where a sandbox was taken from, when it was not made afresh."""

    mode: Literal["pool"] = "pool"
    pool_ref: str
    state: Literal["allocated"] = "allocated"


class SandboxInfo(WireModel):
    """A sandbox as get, list and patch show it."""

    id: str
    status: SandboxStatus
    entrypoint: list[str]
    expires_at: datetime | None = None
    created_at: datetime
    image: SandboxImageSpec | None = None
    snapshot_id: str | None = None
    platform: PlatformSpec | None = None
    allocation: SandboxAllocation | None = None
    metadata: dict[str, str] | None = None
    extensions: dict[str, str] | None = None


class SandboxCreateResponse(WireModel):
    """A sandbox as create answers it, with the endpoints of its ports if the server knows them."""

    id: str
    status: SandboxStatus
    entrypoint: list[str]
    expires_at: datetime | None = None
    created_at: datetime
    platform: PlatformSpec | None = None
    metadata: dict[str, str] | None = None
    extensions: dict[str, str] | None = None
    endpoints: dict[str, SandboxEndpoint] | None = None
    """By port, as text. Other servers leave it out."""


class PagedSandboxInfos(WireModel):
    """One page of sandboxes, newest first."""

    sandbox_infos: list[SandboxInfo] = Field(validation_alias="items", serialization_alias="items")
    pagination: PaginationInfo


class SandboxFilter(WireModel):
    """Which sandboxes to list: any of the states, all of the metadata."""

    states: list[str] | None = None
    metadata: dict[str, str] | None = None
    page_size: int | None = Field(default=None, ge=1)
    page: int | None = Field(default=None, ge=1)


MetadataPatch = dict[str, str | None]
"""Metadata to set; None removes the key."""


class RenewExpirationRequest(WireModel):
    """Request for another end of life, as an absolute time."""

    expires_at: Time


class SandboxRenewResponse(WireModel):
    """When the sandbox now ends."""

    expires_at: datetime


class SandboxMetrics(WireModel):
    """What a sandbox uses of what it may use, as execd tells it."""

    cpu_count: float
    cpu_used_percentage: float = Field(
        validation_alias="cpu_used_pct", serialization_alias="cpu_used_pct"
    )
    memory_total_in_mib: float = Field(
        validation_alias="mem_total_mib", serialization_alias="mem_total_mib"
    )
    memory_used_in_mib: float = Field(
        validation_alias="mem_used_mib", serialization_alias="mem_used_mib"
    )
    timestamp: int
