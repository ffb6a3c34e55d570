# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a sandbox with this process's own input and outputs."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from opensandbox_cli.failures import CommandFault, ExitCode
from opensandbox_cli.streams import InputStream, OutputStream, has_piped_input

if TYPE_CHECKING:
    from opensandbox import Sandbox
    from opensandbox.models.execd import Execution, ExecutionHandlers, OutputMessage, RunCommandOpts

STDIN, STDOUT, STDERR = 0, 1, 2
SIGNALLED = 137  # what a shell says of a killed command; which signal it was is not told
NEVER_RAN = 127  # and of one that it cannot find


def shell_text(words: Sequence[str]) -> str:
    """Join words into shell text that means those words; a single word is shell text already."""
    return words[0] if len(words) == 1 else shlex.join(words)


class Outputs:
    """Standard output and error of this process, for a sandbox to write to."""

    def __init__(self) -> None:
        """Look where they lead."""
        self.stdout = OutputStream(STDOUT)
        self.stderr = OutputStream(STDERR)

    @property
    def handlers(self) -> ExecutionHandlers:
        """What the client calls with each line."""
        from opensandbox.models.execd import ExecutionHandlers

        return ExecutionHandlers(
            on_stdout=_writer(self.stdout), on_stderr=_writer(self.stderr), skip_accumulation=True
        )

    async def close(self) -> None:
        """Write what was held back."""
        await self.stdout.close()
        await self.stderr.close()


def _writer(stream: OutputStream) -> Callable[[OutputMessage], Awaitable[None]]:
    async def write(message: OutputMessage) -> None:
        if message.raw is not None:
            await stream.write(message.raw)
        else:
            text = message.text
            await stream.write((text if text.endswith("\n") else text + "\n").encode())

    return write


async def execute(sandbox: Sandbox, command: str | list[str], opts: RunCommandOpts) -> Execution:
    """Run a command, byte for byte in and out, and return when it has ended.

    What it writes comes from its journal, because the stream of a run has lines and not bytes.
    When this is cancelled the command is interrupted.
    """
    outputs = Outputs()
    async with _running(sandbox, command, opts) as execution_id:
        replay = await sandbox.commands.replay(execution_id, follow=True, handlers=outputs.handlers)
    await outputs.close()
    return replay.execution


@asynccontextmanager
async def _running(
    sandbox: Sandbox, command: str | list[str], opts: RunCommandOpts
) -> AsyncIterator[str]:
    """Start a command, feed it what is piped into this process, and give its id."""
    from opensandbox.exceptions import SandboxException

    beside: list[asyncio.Task[Any]] = []
    try:
        if has_piped_input():
            execution_id = await _start_with_stdin(sandbox, command, opts, beside)
            beside.append(asyncio.create_task(_feed(sandbox, execution_id), name="stdin"))
        else:
            execution_id = await _start(sandbox, command, opts)
        try:
            yield execution_id
        except BaseException:
            with suppress(SandboxException):  # what ended this matters more
                await sandbox.commands.interrupt(execution_id)
            raise
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


async def _start(sandbox: Sandbox, command: str | list[str], opts: RunCommandOpts) -> str:
    background = opts.model_copy(update={"background": True})
    started = await sandbox.commands.run(command, opts=background)
    return _known(started.id)


async def _start_with_stdin(
    sandbox: Sandbox,
    command: str | list[str],
    opts: RunCommandOpts,
    beside: list[asyncio.Task[Any]],
) -> str:
    """Only a command in the foreground has an input; its lines are read, and not used."""
    from opensandbox.models.execd import ExecutionHandlers, ExecutionInit

    began: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def note(init: ExecutionInit) -> None:
        began.set_result(init.id)

    handlers = ExecutionHandlers(on_init=note, skip_accumulation=True)
    opts = opts.model_copy(update={"stdin": True})
    run = sandbox.commands.run(command, opts=opts, handlers=handlers)
    running = asyncio.create_task(run, name="foreground")
    beside.append(running)
    either: list[asyncio.Future[Any]] = [began, running]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    return began.result() if began.done() else _known(running.result().id)


def _known(execution_id: str | None) -> str:
    if execution_id is None:
        raise CommandFault("the sandbox did not start the command; try it again")
    return execution_id


async def _feed(sandbox: Sandbox, execution_id: str) -> None:
    from opensandbox.exceptions import SandboxApiException

    stdin = InputStream(STDIN)
    try:
        while data := await stdin.read():
            await sandbox.commands.write_stdin(execution_id, data)
        await sandbox.commands.write_stdin(execution_id, b"", close=True)
    except SandboxApiException:
        return  # it has ended, or has closed its input: it wants no more


def exit_code(execution: Execution) -> int:
    """Return how this process ends when it ends as the command did."""
    match execution.exit_code:
        case None if execution.error is not None:
            return NEVER_RAN
        case None:
            message = "the stream of the command broke before its end; see: osb logs ID"
            raise CommandFault(message, ExitCode.NOT_STARTED)
        case code if code < 0:
            return SIGNALLED
        case code:
            return code & 0xFF


def complaint(execution: Execution) -> str:
    """Say why a command has no exit code of its own; nothing when it has one."""
    error = execution.error
    if error is None or (execution.exit_code is not None and execution.exit_code >= 0):
        return ""
    return "; ".join(error.traceback) or error.value
