# SPDX-License-Identifier: Apache-2.0
"""The conversation's own sandbox."""

from typing import Annotated

from pydantic import Field

from opensandbox_mcp.results import Workspace
from opensandbox_mcp.sandboxes import Call, conversation_of, sandboxes_of
from opensandbox_mcp.toolbox import Effect, Family, Mode

family = Family()


@family.tool(Effect.CHANGES, Mode.WORKSPACE)
async def workspace_keep(
    call: Call,
    keep: Annotated[bool, Field(description="False: end it with the conversation again.")] = True,
) -> Workspace:
    """Let the workspace outlive this conversation, and return its id and when it expires."""
    workspaces = sandboxes_of(call).workspaces
    assert workspaces is not None, "offered with workspaces only"
    async with workspaces.use(conversation_of(call)) as sandbox:
        workspaces.keep(conversation_of(call), keep)
        info = await sandbox.get_info()
    return Workspace(sandbox_id=sandbox.id, is_kept=keep, expires_at=info.expires_at)
