# SPDX-License-Identifier: Apache-2.0
"""Runs a command for a tool call: tells how it goes, bounds its output, and ends it when told to.

A call that is cancelled interrupts its command. So does a client that goes away over stdio; over
HTTP a lost connection is no end, and the command goes on in its sandbox.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import anyio

from opensandbox.exceptions import SandboxException
from opensandbox.models.execd import (
    Execution,
    ExecutionHandlers,
    ExecutionInit,
    ExecutionLogs,
    OutputMessage,
)
from opensandbox_mcp.output import HALF, BoundedStream
from opensandbox_mcp.results import CommandResult
from opensandbox_mcp.sandboxes import Call, sandboxes_of

PROGRESS_SECONDS = 2.0  # between two reports on a command that is still running
GIVE_UP_SECONDS = 5.0  # bounds telling the sandbox that nobody waits any more
LAST_LINE = 200  # characters of the last line that a report shows

Start = Callable[[ExecutionHandlers], Coroutine[Any, Any, Execution]]


async def run_watched(call: Call, start: Start, *, read_on: str | None = None) -> CommandResult:
    """Start a command and return what came of it, at a bounded size.

    ``read_on`` says what to do about output that was cut; that of commands can be read again.
    """
    watch = _Watch(call, read_on)
    failure: SandboxException | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(watch.report)
        running = asyncio.ensure_future(start(watch.handlers))
        try:
            execution = await asyncio.shield(running)
        except SandboxException as error:
            failure = error  # raised below: in here it would become a group of errors
        except asyncio.CancelledError:
            await _give_up(running)
            raise
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return watch.result(execution)


async def start_fed(call: Call, start: Start) -> CommandResult:
    """Start a command whose input comes by later calls, and return when it has its id."""
    began: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def on_init(init: ExecutionInit) -> None:
        began.set_result(init.id)

    handlers = ExecutionHandlers(on_init=on_init, skip_accumulation=True)
    running = sandboxes_of(call).detach(start(handlers))
    either: list[asyncio.Future[Any]] = [running, began]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not began.done():
        return CommandResult(**(await running).model_dump())
    # Whatever becomes of it, the sandbox tells by command_status.
    running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return CommandResult(
        id=began.result(), note="Feed it with command_write_stdin and read it with command_output."
    )


async def _give_up(running: "asyncio.Future[Execution]") -> None:
    """Tell the client library, once, that nobody waits any more: it interrupts the command."""
    with anyio.CancelScope(shield=True), anyio.move_on_after(GIVE_UP_SECONDS):
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class _Watch:
    """What a command did so far."""

    def __init__(self, call: Call, read_on: str | None) -> None:
        self.execution_id: str | None = None
        self._call = call
        self._read_on = read_on
        self._stdout = BoundedStream()
        self._stderr = BoundedStream()
        self._last_line = ""
        self._began = time.monotonic()

    @property
    def handlers(self) -> ExecutionHandlers:
        return ExecutionHandlers(
            on_init=self._on_init,
            on_stdout=self._on_output,
            on_stderr=self._on_output,
            skip_accumulation=True,
        )

    async def report(self) -> None:
        """Tell the client that the command still runs, until cancelled."""
        while True:
            await anyio.sleep(PROGRESS_SECONDS)
            seconds = time.monotonic() - self._began
            lately = f"; last line: {self._last_line}" if self._last_line else ""
            message = f"running for {seconds:.0f} s, execution {self.execution_id}{lately}"
            await self._call.report_progress(seconds, None, message)

    def result(self, execution: Execution) -> CommandResult:
        """Put what was kept into the execution."""
        logs = ExecutionLogs(stdout=self._stdout.messages, stderr=self._stderr.messages)
        fields = execution.model_dump(exclude={"logs"})
        return CommandResult(**fields, logs=logs, note=self._note(execution))

    def _note(self, execution: Execution) -> str | None:
        cut = [
            f"{name} has {stream.size} characters, of which the beginning and the end are shown"
            for name, stream in (("stdout", self._stdout), ("stderr", self._stderr))
            if stream.is_cut
        ]
        if not cut:
            return None
        how = f'command_output with execution_id="{execution.id}", stream and offset={HALF}'
        return f"{'; '.join(cut)}. {self._read_on or f'Read on with {how}'}."

    async def _on_init(self, init: ExecutionInit) -> None:
        self.execution_id = init.id

    async def _on_output(self, message: OutputMessage) -> None:
        (self._stderr if message.is_error else self._stdout).add(message)
        self._last_line = message.text.strip()[-LAST_LINE:] or self._last_line
