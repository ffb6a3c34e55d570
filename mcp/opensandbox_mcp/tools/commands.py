# SPDX-License-Identifier: Apache-2.0
"""Running commands, in the foreground and in the background, and reading what they wrote."""

from datetime import timedelta
from functools import partial
from typing import Annotated, Literal

import anyio
from pydantic import Field

from opensandbox import Sandbox
from opensandbox.exceptions import InvalidArgumentException
from opensandbox.models.execd import (
    CommandStatus,
    Execution,
    ExecutionHandlers,
    OutputMessage,
    RunCommandOpts,
)
from opensandbox_mcp.output import SHOWN, decoded_page
from opensandbox_mcp.results import CommandLogsPage, CommandOutput, CommandResult, Status
from opensandbox_mcp.running import run_watched, start_fed
from opensandbox_mcp.sandboxes import Call, sandboxes_of
from opensandbox_mcp.toolbox import ConnectIfMissing, Effect, Family, SandboxId

family = Family()

ExecutionId = Annotated[str, Field(description="The id in the result of command_run.")]
Directory = Annotated[str | None, Field(description="Where to run it.")]
WaitSeconds = Annotated[
    float, Field(ge=0, le=600, description="Wait so long for something new, or the end.")
]
Timeout = Annotated[float | None, Field(gt=0, description="It is ended after this long.")]


@family.tool(Effect.RUNS)
async def command_run(
    call: Call,
    sandbox_id: SandboxId,
    command: Annotated[str, Field(description="Shell text.")],
    background: Annotated[bool, Field(description="Return at once; see command_logs.")] = False,
    working_directory: Directory = None,
    connect_if_missing: ConnectIfMissing = False,
    timeout_seconds: Timeout = None,
    env: Annotated[dict[str, str] | None, Field(description="Variables for it alone.")] = None,
    stdin: Annotated[
        bool, Field(description="Feed it by command_write_stdin; needs background=true.")
    ] = False,
) -> CommandResult:
    """Run a command in a sandbox and return its output and exit code.

    A command that fails is no error: look at exit_code. Cancelling the call interrupts the command.
    """
    if stdin and not background:
        raise InvalidArgumentException("stdin=true needs background=true: input comes later")
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        opts = RunCommandOpts(
            background=background and not stdin,  # a sandbox feeds foreground commands only
            working_directory=working_directory,
            timeout=None if timeout_seconds is None else timedelta(seconds=timeout_seconds),
            envs=env,
            stdin=stdin,
        )
        start = partial(_run, sandbox, command, opts)
        if stdin:
            return await start_fed(call, start)
        return await run_watched(call, start)


async def _run(
    sandbox: Sandbox, command: str, opts: RunCommandOpts, handlers: ExecutionHandlers
) -> Execution:
    return await sandbox.commands.run(command, opts=opts, handlers=handlers)


@family.tool(Effect.RUNS)
async def command_write_stdin(
    call: Call,
    sandbox_id: SandboxId,
    execution_id: ExecutionId,
    data: Annotated[str, Field(description="Text; end a line with a line feed.")],
    close: Annotated[bool, Field(description="Then end its input.")] = False,
    connect_if_missing: ConnectIfMissing = False,
) -> Status:
    """Write to the standard input of a command that was run with stdin=true."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.commands.write_stdin(execution_id, data, close=close)
    return Status(status="written")


@family.tool(Effect.DESTROYS)
async def command_interrupt(
    call: Call,
    sandbox_id: SandboxId,
    execution_id: ExecutionId,
    connect_if_missing: ConnectIfMissing = False,
) -> Status:
    """End a running command."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.commands.interrupt(execution_id)
    return Status(status="interrupted")


@family.tool(Effect.READS)
async def command_status(
    call: Call,
    sandbox_id: SandboxId,
    execution_id: ExecutionId,
    connect_if_missing: ConnectIfMissing = False,
) -> CommandStatus:
    """Tell whether a command still runs, and how it ended."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        return await sandbox.commands.get_command_status(execution_id)


@family.tool(Effect.READS)
async def command_output(
    call: Call,
    sandbox_id: SandboxId,
    execution_id: ExecutionId,
    stream: Annotated[Literal["stdout", "stderr"], Field(description="Which one.")] = "stdout",
    offset: Annotated[int, Field(ge=0, description="In bytes; see next_offset.")] = 0,
    wait_seconds: WaitSeconds = 0,
    connect_if_missing: ConnectIfMissing = False,
) -> CommandOutput:
    """Read on in the output of a command, finished or running, a page at a time."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        replay = await sandbox.commands.replay(execution_id)
        if wait_seconds and len(getattr(replay, stream)) <= offset:
            await _wait_for_news(sandbox, execution_id, replay.cursor, wait_seconds)
        # The status first: what a command writes after it, the next call still tells.
        status = await sandbox.commands.get_command_status(execution_id)
        replay = await sandbox.commands.replay(execution_id)
    written: bytes = getattr(replay, stream)
    content, following = decoded_page(written, min(offset, len(written)))
    notes = [f"Read on with offset={following}."] if following < len(written) else []
    if replay.gaps:
        notes.append("The oldest output was dropped; offsets count from what is kept.")
    return CommandOutput(
        content=content,
        offset=min(offset, len(written)),
        next_offset=following,
        size=len(written),
        running=bool(status.running),
        exit_code=status.exit_code,
        note=" ".join(notes) or None,
    )


@family.tool(Effect.READS)
async def command_logs(
    call: Call,
    sandbox_id: SandboxId,
    execution_id: ExecutionId,
    cursor: Annotated[int, Field(ge=0, description="From the call before; 0 at first.")] = 0,
    wait_seconds: WaitSeconds = 0,
    connect_if_missing: ConnectIfMissing = False,
) -> CommandLogsPage:
    """Read what a background command wrote since a cursor; with wait_seconds, follow it."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        if wait_seconds:
            await _wait_for_news(sandbox, execution_id, cursor, wait_seconds)
        # The status first: what a command writes after it, the next call still tells.
        status = await sandbox.commands.get_command_status(execution_id)
        logs = await sandbox.commands.get_background_command_logs(execution_id, cursor)
    reached = cursor if logs.cursor is None else logs.cursor
    shown, rest = logs.content[:SHOWN], logs.content[SHOWN:]
    following = reached - len(rest.encode())
    return CommandLogsPage(
        content=shown,
        cursor=following,
        running=bool(status.running),
        exit_code=status.exit_code,
        note=f"There is more; read on with cursor={following}." if rest else None,
    )


async def _wait_for_news(sandbox: Sandbox, execution_id: str, cursor: int, seconds: float) -> None:
    """Return when the command has written something after the cursor, has ended, or time is up."""
    with anyio.move_on_after(seconds) as waiting:

        async def on_output(_: OutputMessage) -> None:
            waiting.cancel()

        handlers = ExecutionHandlers(on_stdout=on_output, on_stderr=on_output)
        await sandbox.commands.replay(execution_id, cursor=cursor, follow=True, handlers=handlers)
