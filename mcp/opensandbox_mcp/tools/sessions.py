# SPDX-License-Identifier: Apache-2.0
"""Shells that stay: directory and variables are kept from one run to the next."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from opensandbox_mcp.results import CommandResult, Session, Status
from opensandbox_mcp.running import run_watched
from opensandbox_mcp.sandboxes import Call, sandboxes_of
from opensandbox_mcp.toolbox import ConnectIfMissing, Effect, Family, SandboxId
from opensandbox_mcp.tools.commands import Directory, Timeout

family = Family()

SessionId = Annotated[str, Field(description="The id in the result of session_create.")]


@family.tool(Effect.CHANGES)
async def session_create(
    call: Call,
    sandbox_id: SandboxId,
    working_directory: Directory = None,
    connect_if_missing: ConnectIfMissing = False,
) -> Session:
    """Start a shell that stays, for session_run."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        created = await sandbox.commands.create_session(working_directory=working_directory)
    return Session(session_id=created)


@family.tool(Effect.RUNS)
async def session_run(
    call: Call,
    sandbox_id: SandboxId,
    session_id: SessionId,
    command: Annotated[str, Field(description="Shell text.")],
    working_directory: Directory = None,
    timeout_seconds: Timeout = None,
    connect_if_missing: ConnectIfMissing = False,
) -> CommandResult:
    """Run a command in a session. Cancelling the call interrupts the command."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        return await run_watched(
            call,
            lambda handlers: sandbox.commands.run_in_session(
                session_id,
                command,
                working_directory=working_directory,
                timeout=None if timeout_seconds is None else timedelta(seconds=timeout_seconds),
                handlers=handlers,
            ),
        )


@family.tool(Effect.DESTROYS)
async def session_delete(
    call: Call,
    sandbox_id: SandboxId,
    session_id: SessionId,
    connect_if_missing: ConnectIfMissing = False,
) -> Status:
    """End a session and what runs in it."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.commands.delete_session(session_id)
    return Status(status="deleted")
