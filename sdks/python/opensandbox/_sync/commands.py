# SPDX-License-Identifier: Apache-2.0
# Made from _async/commands.py by scripts/unasync.py; change it there.
"""Runs commands and shell sessions inside a sandbox."""

import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from pydantic import BaseModel, TypeAdapter

from opensandbox._events import Fold, Kind, ReplayFold
from opensandbox._requests import (
    read_cursor,
    run_body,
    segment,
    session_run_body,
    set_env_command,
)
from opensandbox._resuming import Ask, Bytes, Lines, output_path
from opensandbox.exceptions import SandboxException
from opensandbox.models import ExecutionHandlersSync
from opensandbox.models.execd import (
    CommandLogs,
    CommandReplay,
    CommandStatus,
    Execution,
    RunCommandOpts,
)

from .following import Following, new_fold
from .transport import Remote
from .waiting import GIVING_UP, sleep

CURSOR_HEADER = "EXECD-COMMANDS-TAIL-CURSOR"

# Somebody who gives up asks once for the command to be ended and waits at most this long; more
# often, with pauses that grow, when it is not known to have begun.
PARTING_SECONDS = 5.0
PARTING_TRIES = 4
PARTING_PAUSE_SECONDS = 0.05


class _NewSession(BaseModel):
    session_id: str


_NEW_SESSION = TypeAdapter(_NewSession)
_STATUS = TypeAdapter(CommandStatus)


class Commands:
    """Commands of one sandbox."""

    def __init__(self, execd: Remote) -> None:
        """Speak to this execd."""
        self._execd = execd

    def run(
        self,
        command: str | Sequence[str],
        *,
        opts: RunCommandOpts | None = None,
        handlers: ExecutionHandlersSync | None = None,
    ) -> Execution:
        """Run shell text, or a program with its arguments, and return what came of it.

        A command that fails is no exception: look at ``exit_code`` and ``error``. In the background
        it returns at once. A stream that breaks is taken up again. To give up, by cancelling the
        task or with Ctrl-C, ends the command; a client that dies does not.
        """
        opts = opts or RunCommandOpts()
        kind = Kind.BACKGROUND if opts.background else Kind.COMMAND
        # Chosen here, so that the command can be found again whatever happens to the answer.
        execution_id = secrets.token_hex(16)
        body = {"id": execution_id, **run_body(command, opts)}
        ask = Ask("POST", "/command", json=body)
        return self._run(new_fold(kind, handlers), ask, execution_id, handlers)

    def interrupt(self, execution_id: str) -> None:
        """End a running command."""
        self._execd.send("DELETE", "/command", query=[("id", execution_id)])

    def get_command_status(self, execution_id: str) -> CommandStatus:
        """Return what became of a command so far."""
        path = f"/command/status/{segment(execution_id, 'execution_id')}"
        return self._execd.ask(_STATUS, "GET", path)

    def get_background_command_logs(
        self, execution_id: str, cursor: int | None = None
    ) -> CommandLogs:
        """Return what a background command wrote since ``cursor``."""
        path = f"/command/{segment(execution_id, 'execution_id')}/logs"
        query = None if cursor is None else [("cursor", str(cursor))]
        response = self._execd.send("GET", path, query=query)
        cursor = read_cursor(response.headers.get(CURSOR_HEADER))
        return CommandLogs(content=response.content.decode(errors="replace"), cursor=cursor)

    def replay(
        self,
        execution_id: str,
        *,
        cursor: int = 0,
        follow: bool = False,
        handlers: ExecutionHandlersSync | None = None,
    ) -> CommandReplay:
        """Return a command's output from ``cursor`` on, byte for byte; ``follow`` it to its end.

        What handlers get has the bytes too, in ``raw``.
        """
        fold = ReplayFold(keeps_output=not (handlers and handlers.skip_accumulation))
        resumption = Bytes(execution_id, cursor, follow=follow)
        Following(self._execd, fold, resumption, handlers).run(resumption.next_ask())
        return fold.finish_replay()

    def follow(
        self, execution_id: str, *, cursor: int = 0, handlers: ExecutionHandlersSync | None = None
    ) -> Execution:
        """Follow a command to its end, line by line, from ``cursor`` (a count of bytes) on.

        It may run or have ended, in the foreground or the background. Also takes the id of a
        session, and then follows its latest run.
        """
        fold = new_fold(Kind.COMMAND, handlers)
        ask = Ask("GET", output_path(execution_id), [("lines", "true"), ("cursor", str(cursor))])
        Following(self._execd, fold, Lines(execution_id, cursor), handlers).run(ask)
        return fold.finish()

    def write_stdin(
        self, execution_id: str, data: bytes | str, *, close: bool = False
    ) -> None:
        """Write to the stdin of a command that was run with ``RunCommandOpts(stdin=True)``.

        Returns when the command's pipe has taken the last byte; ``close`` then ends its input.
        """
        path = f"/command/{segment(execution_id, 'execution_id')}/stdin"
        content = data.encode() if isinstance(data, str) else data
        query = [("close", str(close).lower())]
        headers = {"Content-Type": "application/octet-stream"}
        self._execd.send("POST", path, query=query, content=content, headers=headers)

    def create_session(self, *, working_directory: str | None = None) -> str:
        """Start a shell that stays, and return its id."""
        body = {"cwd": working_directory} if working_directory else None
        return (self._execd.ask(_NEW_SESSION, "POST", "/session", json=body)).session_id

    def run_in_session(
        self,
        session_id: str,
        command: str,
        *,
        working_directory: str | None = None,
        timeout: timedelta | None = None,
        handlers: ExecutionHandlersSync | None = None,
    ) -> Execution:
        """Run shell text in a session; directory and exported variables stay for the next."""
        path = f"/session/{segment(session_id, 'session_id')}/run"
        ask = Ask("POST", path, json=session_run_body(command, working_directory, timeout))
        return self._run(new_fold(Kind.SESSION, handlers), ask, None, handlers)

    def delete_session(self, session_id: str) -> None:
        """End a session and what runs in it."""
        self._execd.send("DELETE", f"/session/{segment(session_id, 'session_id')}")

    def set_env(self, key: str, value: str) -> None:
        """Set a variable for every later command and session."""
        execution = self.run(set_env_command(key, value))
        if execution.exit_code != 0:
            raise SandboxException(f"could not set {key}: {execution}")

    def _run(
        self,
        fold: Fold,
        ask: Ask,
        execution_id: str | None,
        handlers: ExecutionHandlersSync | None,
    ) -> Execution:
        # What runs in the background has no stream to follow.
        lines = Lines(None if fold.kind is Kind.BACKGROUND else execution_id)
        following = Following(self._execd, fold, lines, handlers)
        try:
            following.run(ask)
        except GIVING_UP:
            self._abandon(fold.execution.id, execution_id)
            raise
        return fold.finish()

    def _abandon(self, running: str | None, wanted: str | None) -> None:
        # A session waits for its turn before it begins, and then there is nothing to end. A command
        # that has not said its id may be about to begin.
        execution_id = running or wanted
        if execution_id is None:
            return
        for attempt in range(1 if running else PARTING_TRIES):
            sleep(attempt * PARTING_PAUSE_SECONDS)
            with suppress(SandboxException):  # it has ended, or is not there, or nobody answers
                query = [("id", execution_id)]
                self._execd.send(
                    "DELETE", "/command", query=query, once_within=PARTING_SECONDS
                )
                return
