# SPDX-License-Identifier: Apache-2.0
"""Runs commands and shell sessions inside a sandbox."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, TypeAdapter

from opensandbox._events import EventReader, Fold, Happening, Kind, ReplayFold
from opensandbox._requests import (
    Query,
    read_cursor,
    run_body,
    segment,
    session_run_body,
    set_env_command,
)
from opensandbox.exceptions import SandboxException, SandboxInternalException
from opensandbox.models import ExecutionHandlers
from opensandbox.models.execd import (
    CommandLogs,
    CommandReplay,
    CommandStatus,
    Execution,
    ExecutionComplete,
    ExecutionError,
    ExecutionInit,
    ExecutionResult,
    OutputMessage,
    RunCommandOpts,
)

from .transport import Remote, reading

CURSOR_HEADER = "EXECD-COMMANDS-TAIL-CURSOR"
_EVENT_STREAM = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}


class _NewSession(BaseModel):
    session_id: str


_NEW_SESSION = TypeAdapter(_NewSession)
_STATUS = TypeAdapter(CommandStatus)


class Commands:
    """Commands of one sandbox."""

    def __init__(self, execd: Remote) -> None:
        """Speak to this execd."""
        self._execd = execd

    async def run(
        self,
        command: str | Sequence[str],
        *,
        opts: RunCommandOpts | None = None,
        handlers: ExecutionHandlers | None = None,
    ) -> Execution:
        """Run shell text, or a program with its arguments, and return what came of it.

        A command that fails is no exception: look at ``exit_code`` and ``error``. In the background
        it returns at once. A client that goes away does not end the command.
        """
        opts = opts or RunCommandOpts()
        kind = Kind.BACKGROUND if opts.background else Kind.COMMAND
        return await self._stream(kind, "/command", run_body(command, opts), handlers)

    async def interrupt(self, execution_id: str) -> None:
        """End a running command."""
        await self._execd.send("DELETE", "/command", query=[("id", execution_id)])

    async def get_command_status(self, execution_id: str) -> CommandStatus:
        """Return what became of a command so far."""
        path = f"/command/status/{segment(execution_id, 'execution_id')}"
        return await self._execd.ask(_STATUS, "GET", path)

    async def get_background_command_logs(
        self, execution_id: str, cursor: int | None = None
    ) -> CommandLogs:
        """Return what a background command wrote since ``cursor``."""
        path = f"/command/{segment(execution_id, 'execution_id')}/logs"
        query = None if cursor is None else [("cursor", str(cursor))]
        response = await self._execd.send("GET", path, query=query)
        cursor = read_cursor(response.headers.get(CURSOR_HEADER))
        return CommandLogs(content=response.content.decode(errors="replace"), cursor=cursor)

    async def replay(
        self,
        execution_id: str,
        *,
        cursor: int = 0,
        follow: bool = False,
        handlers: ExecutionHandlers | None = None,
    ) -> CommandReplay:
        """Return a command's output from ``cursor`` on, byte for byte; ``follow`` it to its end.

        What handlers get has the bytes too, in ``raw``.
        """
        path = f"/command/{segment(execution_id, 'execution_id')}/output"
        query = [("cursor", str(cursor)), ("follow", str(follow).lower())]
        fold = ReplayFold(keeps_output=not (handlers and handlers.skip_accumulation))
        await self._read(fold, "GET", path, handlers, query=query)
        return fold.finish_replay()

    async def follow(
        self, execution_id: str, *, cursor: int = 0, handlers: ExecutionHandlers | None = None
    ) -> Execution:
        """Follow a command to its end, line by line, from ``cursor`` (a count of bytes) on.

        It may run or have ended, in the foreground or the background. Also takes the id of a
        session, and then follows its latest run.
        """
        fold = Fold(Kind.COMMAND, keeps_output=not (handlers and handlers.skip_accumulation))
        path = f"/command/{segment(execution_id, 'execution_id')}/output"
        query = [("lines", "true"), ("cursor", str(cursor))]
        await self._read(fold, "GET", path, handlers, query=query)
        return fold.finish()

    async def write_stdin(
        self, execution_id: str, data: bytes | str, *, close: bool = False
    ) -> None:
        """Write to the stdin of a command that was run with ``RunCommandOpts(stdin=True)``.

        Returns when the command's pipe has taken the last byte; ``close`` then ends its input.
        """
        path = f"/command/{segment(execution_id, 'execution_id')}/stdin"
        content = data.encode() if isinstance(data, str) else data
        query = [("close", str(close).lower())]
        headers = {"Content-Type": "application/octet-stream"}
        await self._execd.send("POST", path, query=query, content=content, headers=headers)

    async def create_session(self, *, working_directory: str | None = None) -> str:
        """Start a shell that stays, and return its id."""
        body = {"cwd": working_directory} if working_directory else None
        return (await self._execd.ask(_NEW_SESSION, "POST", "/session", json=body)).session_id

    async def run_in_session(
        self,
        session_id: str,
        command: str,
        *,
        working_directory: str | None = None,
        timeout: timedelta | None = None,
        handlers: ExecutionHandlers | None = None,
    ) -> Execution:
        """Run shell text in a session; directory and exported variables stay for the next."""
        path = f"/session/{segment(session_id, 'session_id')}/run"
        body = session_run_body(command, working_directory, timeout)
        return await self._stream(Kind.SESSION, path, body, handlers)

    async def delete_session(self, session_id: str) -> None:
        """End a session and what runs in it."""
        await self._execd.send("DELETE", f"/session/{segment(session_id, 'session_id')}")

    async def set_env(self, key: str, value: str) -> None:
        """Set a variable for every later command and session."""
        execution = await self.run(set_env_command(key, value))
        if execution.exit_code != 0:
            raise SandboxException(f"could not set {key}: {execution}")

    async def _stream(
        self, kind: Kind, path: str, body: dict[str, Any], handlers: ExecutionHandlers | None
    ) -> Execution:
        fold = Fold(kind, keeps_output=not (handlers and handlers.skip_accumulation))
        await self._read(fold, "POST", path, handlers, json=body)
        return fold.finish()

    async def _read(
        self,
        fold: Fold,
        method: str,
        path: str,
        handlers: ExecutionHandlers | None,
        *,
        query: Query | None = None,
        json: object = None,
    ) -> None:
        response = await self._execd.open(
            method, path, query=query, json=json, headers=_EVENT_STREAM, is_stream=True
        )
        async with reading(response):
            media = response.headers.get("Content-Type", "")
            if "text/event-stream" not in media:
                raise SandboxInternalException(f"{path} answered {media}, not an event stream")
            reader = EventReader()
            async for chunk in response.aiter_bytes():
                for event in reader.feed(chunk):
                    await _tell(handlers, fold.add(event))
                if fold.is_over:
                    return
            for event in reader.finish():
                await _tell(handlers, fold.add(event))


async def _tell(handlers: ExecutionHandlers | None, happening: Happening | None) -> None:
    if handlers is None:
        return
    match happening:
        case OutputMessage(is_error=True) if handlers.on_stderr:
            await handlers.on_stderr(happening)
        case OutputMessage(is_error=False) if handlers.on_stdout:
            await handlers.on_stdout(happening)
        case ExecutionResult() if handlers.on_result:
            await handlers.on_result(happening)
        case ExecutionError() if handlers.on_error:
            await handlers.on_error(happening)
        case ExecutionComplete() if handlers.on_execution_complete:
            await handlers.on_execution_complete(happening)
        case ExecutionInit() if handlers.on_init:
            await handlers.on_init(happening)
