# SPDX-License-Identifier: Apache-2.0
# Made from _async/codes.py by scripts/unasync.py; change it there.
"""Runs code in interpreters that stay: the contexts of a sandbox."""

from contextlib import suppress
from datetime import timedelta

from pydantic import TypeAdapter

from opensandbox._events import Kind
from opensandbox._requests import code_body, context_body, segment
from opensandbox._resuming import Ask, Once
from opensandbox.exceptions import SandboxException
from opensandbox.models import ExecutionHandlersSync
from opensandbox.models.code import CodeContext
from opensandbox.models.execd import Execution

from .commands import PARTING_SECONDS
from .following import Following, new_fold
from .readiness import MAX_PING_SECONDS
from .transport import Remote
from .waiting import GIVING_UP

_CONTEXT = TypeAdapter(CodeContext)
_CONTEXTS = TypeAdapter(list[CodeContext])
_LOST = "the code may go on; the next run in its context waits for it, and codes.interrupt ends it"


class Codes:
    """Code of one sandbox. Variables, functions and imports stay in their context."""

    def __init__(self, execd: Remote) -> None:
        """Speak to this execd."""
        self._execd = execd

    def create_context(
        self,
        language: str,
        *,
        working_directory: str | None = None,
        envs: dict[str, str] | None = None,
    ) -> CodeContext:
        """Start an interpreter of its own; the directory is made when it is missing."""
        body = context_body(language, working_directory, envs)
        return self._execd.ask(_CONTEXT, "POST", "/code/context", json=body)

    def get_context(self, context_id: str) -> CodeContext:
        """Return a context."""
        return self._execd.ask(_CONTEXT, "GET", _path(context_id))

    def list_contexts(self, language: str = "") -> list[CodeContext]:
        """Return the contexts of a language, or all."""
        query = [("language", language)] if language else None
        return self._execd.ask(_CONTEXTS, "GET", "/code/contexts", query=query)

    def delete_context(self, context_id: str) -> None:
        """End a context and what runs in it."""
        self._execd.send("DELETE", _path(context_id))

    def delete_contexts(self, language: str) -> None:
        """End every context of a language."""
        self._execd.send("DELETE", "/code/contexts", query=[("language", language)])

    def run(
        self,
        code: str,
        *,
        language: str | None = None,
        context: CodeContext | None = None,
        handlers: ExecutionHandlersSync | None = None,
        timeout: timedelta | None = None,
    ) -> Execution:
        """Run code in a context, or in the default one of a language, which is Python's.

        Runs of one context come one after another. Code that fails is no exception: look at
        ``error``. To give up, by cancelling the task or with Ctrl-C, interrupts code that has
        begun; code that waits for its turn never begins. A stream that is lost is an exception,
        because nobody keeps what code wrote.
        """
        ask = Ask("POST", "/code", json=code_body(code, language, context, timeout))
        fold = new_fold(Kind.CODE, handlers)
        try:
            Following(self._execd, fold, Once(_LOST), handlers).run(ask)
        except GIVING_UP:
            self._abandon(fold.execution.id)
            raise
        return fold.finish()

    def interrupt(self, execution_id: str) -> None:
        """Interrupt what runs; the id is that of the execution, which is its context's."""
        self._execd.send("DELETE", "/code", query=[("id", execution_id)])

    def ping(self) -> bool:
        """Whether the sandbox answers."""
        try:
            self._execd.send("GET", "/ping", once_within=MAX_PING_SECONDS)
        except SandboxException:
            return False
        return True

    def _abandon(self, running: str | None) -> None:
        # Without an id it waits for its turn, and an interrupt would hit somebody else's code.
        if running is None:
            return
        with suppress(SandboxException):  # it has ended, or nobody answers
            self._execd.send(
                "DELETE", "/code", query=[("id", running)], once_within=PARTING_SECONDS
            )


def _path(context_id: str) -> str:
    return f"/code/contexts/{segment(context_id, 'context_id')}"
