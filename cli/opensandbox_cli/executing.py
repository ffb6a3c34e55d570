# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a sandbox with this process's own input and outputs."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

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

    It runs in the background of the sandbox and is followed, so its output is what it wrote and
    not lines of it. When this is cancelled the command is interrupted.
    """
    opts = opts.model_copy(update={"background": True, "stdin": has_piped_input()})
    started = await sandbox.commands.run(command, opts=opts)
    if started.id is None:
        raise CommandFault("the sandbox did not start the command; try it again")
    outputs = Outputs()
    feeding = asyncio.create_task(_feed(sandbox, started.id), name="stdin") if opts.stdin else None
    try:
        replay = await sandbox.commands.replay(started.id, follow=True, handlers=outputs.handlers)
        await outputs.close()
        return replay.execution
    except asyncio.CancelledError:
        await sandbox.commands.interrupt(started.id)
        raise
    finally:
        if feeding:
            feeding.cancel()
            await asyncio.wait([feeding])


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
