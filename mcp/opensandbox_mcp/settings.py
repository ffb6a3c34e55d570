# SPDX-License-Identifier: Apache-2.0
"""What the server was told on its command line, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from opensandbox.config import ConnectionConfig

DEFAULT_IMAGE = "host"
DEFAULT_WORKSPACE_TIMEOUT = timedelta(minutes=30)


@dataclass(frozen=True)
class WorkspaceSettings:
    """The sandbox that each conversation gets."""

    image: str = DEFAULT_IMAGE
    timeout: timedelta = DEFAULT_WORKSPACE_TIMEOUT
    """It ends when nobody used it for this long."""
    env: Mapping[str, str] = field(default_factory=dict)
    is_kept: bool = False
    """Whether it outlives its conversation, until its time is over."""


@dataclass(frozen=True)
class Settings:
    """Where the OpenSandbox server is, and whether a conversation has a workspace."""

    connection: ConnectionConfig
    workspace: WorkspaceSettings | None = None
