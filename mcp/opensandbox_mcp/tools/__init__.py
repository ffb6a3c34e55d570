# SPDX-License-Identifier: Apache-2.0
"""Every tool, by what it is about."""

from opensandbox_mcp.toolbox import ToolSpec
from opensandbox_mcp.tools import (
    code,
    commands,
    diagnostics,
    egress,
    files,
    lifecycle,
    ports,
    sessions,
    snapshots,
    transfers,
    workspace,
)

FAMILIES = (
    lifecycle.family,
    workspace.family,
    commands.family,
    sessions.family,
    code.family,
    files.family,
    transfers.family,
    ports.family,
    snapshots.family,
    egress.family,
    diagnostics.family,
)


def offered(*, has_workspace: bool) -> list[ToolSpec]:
    """Return the tools of a server, with a workspace for each conversation or without."""
    return [
        spec
        for family in FAMILIES
        for spec in family.specs
        if spec.is_offered(has_workspace=has_workspace)
    ]
