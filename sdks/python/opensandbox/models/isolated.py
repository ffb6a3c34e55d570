# SPDX-License-Identifier: Apache-2.0
"""Isolated sessions: shells inside a sandbox that see less of it. Keys are snake_case."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field


class IsolatedModel(BaseModel):
    """A JSON object of these routes. Unknown fields are ignored."""

    def to_wire(self) -> dict[str, Any]:
        """Return the object as JSON values; absent fields are left out, never null."""
        return self.model_dump(mode="json", exclude_none=True)


class IsolatedWorkspaceSpec(IsolatedModel):
    """The directory a session works in: ``rw``, ``overlay`` or ``ro``."""

    path: str
    mode: str | None = None


class IsolatedOverlaySpec(IsolatedModel):
    """A directory whose changes stay in the session."""

    path: str
    mode: str | None = None
    persist: bool | None = None


class BindMount(IsolatedModel):
    """A directory of the sandbox, seen in the session at ``dest``."""

    source: str
    dest: str | None = None
    readonly: bool | None = None


class EnvPassthroughSpec(IsolatedModel):
    """Which variables reach the session: only these (``allow``), or all but these (``deny``)."""

    mode: str = "deny"
    keys: list[str] = Field(default_factory=list)


class CreateIsolatedSessionRequest(IsolatedModel):
    """Request for a session."""

    workspace: IsolatedWorkspaceSpec | None = None
    overlays: list[IsolatedOverlaySpec] | None = None
    profile: str | None = None
    """``strict`` or ``balanced``."""
    extra_writable: list[str] | None = None
    binds: list[BindMount] | None = None
    share_net: bool | None = None
    env_passthrough: EnvPassthroughSpec | None = None
    uid: int | None = None
    gid: int | None = None
    uid_mode: str | None = None
    """``setpriv`` or ``userns``."""
    idle_timeout_seconds: int | None = None


class IsolatedSessionInfo(CreateIsolatedSessionRequest):
    """A session as it was made."""

    session_id: str
    created_at: datetime | None = None


class IsolatedSessionState(CreateIsolatedSessionRequest):
    """A session as it is now: ``active``, ``dead`` or ``destroyed``."""

    status: str
    created_at: datetime | None = None
    last_run_at: datetime | None = None
    idle_remaining_seconds: int | None = None


class IsolatedSessionSummary(IsolatedModel):
    """A session as a list shows it."""

    session_id: str
    status: str
    created_at: datetime
    last_run_at: datetime
    idle_remaining_seconds: int | None = None


class IsolatedRunOpts(IsolatedModel):
    """How to run: variables, and seconds it may take."""

    envs: dict[str, str] | None = None
    timeout_seconds: int | None = None


class IsolatedBackgroundRun(IsolatedModel):
    """A run that goes on by itself."""

    session_id: str
    run_id: str
    started_at: datetime | None = None


class IsolatedRunStatus(IsolatedModel):
    """What became of a run so far."""

    session_id: str
    run_id: str
    running: bool
    exit_code: int | None = None
    error: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class IsolatedRunLogs(IsolatedModel):
    """What a run wrote, and where the next stretch begins."""

    text: str
    cursor: int


class HardeningLayerState(IsolatedModel):
    """One layer: ``active``, ``disabled``, ``degraded`` or ``unsupported``, and why."""

    state: str | None = None
    message: str | None = None


class HardeningStatus(IsolatedModel):
    """What protects a session."""

    init_mode: str | None = None
    signal_shield: bool = False
    cap_drop: HardeningLayerState | None = None
    seccomp: HardeningLayerState | None = None
    landlock: HardeningLayerState | None = None
    ebpf: HardeningLayerState | None = None


class IsolatedCapabilities(IsolatedModel):
    """What this sandbox can do for isolated sessions."""

    available: bool = False
    isolator: str | None = None
    version: str | None = None
    message: str | None = None
    setpriv_available: bool = False
    userns_available: bool = False
    commit_supported: bool = False
    diff_supported: bool = False
    hardening: HardeningStatus | None = None
