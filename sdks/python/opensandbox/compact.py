# SPDX-License-Identifier: Apache-2.0
"""A small client for programs that only want to run code: state stays from call to call."""

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import Literal, Protocol, Self, overload

from opensandbox._interpreter import PythonInterpreter
from opensandbox._sync.sandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import InvalidArgumentException, SandboxException
from opensandbox.models import Execution, ExecutionHandlersSync, OutputMessage

__all__ = ["Chunk", "CompactSandbox", "Result", "SandboxClient"]

_BACKLOG = 64  # pieces of output that wait for a slow reader; then the program waits


@dataclass(frozen=True)
class Chunk:
    """A line that running code wrote; one of the two is empty."""

    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True)
class Result:
    """What came of a piece of code."""

    stdout: str
    stderr: str
    exit_code: int | None


class _Language(Protocol):
    def run(self, code: str, handlers: ExecutionHandlersSync | None = None) -> Execution: ...


class SandboxClient:
    """Makes sandboxes on one server."""

    def __init__(
        self,
        base_url: str | None = None,
        runtime: str | None = None,
        api_key: str | None = None,
    ) -> None:
        """Speak to a server; without arguments to the one the environment names.

        ``runtime`` insists on how sandboxes are isolated, for example ``crun``.
        """
        self._config = ConnectionConfigSync(domain=base_url, api_key=api_key)
        self._runtime = runtime

    def create_sandbox(
        self,
        image: str = "host",
        timeout: int | timedelta | None = 600,
        egress_enabled: bool = True,
        env: dict[str, str] | None = None,
    ) -> "CompactSandbox":
        """Make a sandbox that lives for ``timeout`` seconds; None lives until it is destroyed.

        Without ``egress_enabled`` it has no network.
        """
        extensions = {} if egress_enabled else {"network": "none"}
        if self._runtime is not None:
            extensions["runtime"] = self._runtime
        lifetime = timedelta(seconds=timeout) if isinstance(timeout, int) else timeout
        sandbox = SandboxSync.create(
            image,
            timeout=lifetime,
            env=env,
            extensions=extensions or None,
            connection_config=self._config,
        )
        return CompactSandbox(sandbox)


class CompactSandbox:
    """One sandbox. As a context manager it is destroyed when left."""

    def __init__(self, sandbox: SandboxSync) -> None:
        """Hold a sandbox; most callers want ``SandboxClient.create_sandbox``."""
        self._sandbox = sandbox
        self._languages: dict[str, _Language] = {
            "bash": _Shell(sandbox),
            "python": PythonInterpreter(sandbox),
        }

    @property
    def id(self) -> str:
        """The id of the sandbox."""
        return self._sandbox.id

    @overload
    def execute(self, code: str, language: str = ..., stream: Literal[False] = ...) -> Result: ...

    @overload
    def execute(
        self, code: str, language: str = ..., *, stream: Literal[True]
    ) -> Iterator[Chunk]: ...

    def execute(
        self, code: str, language: str = "python", stream: bool = False
    ) -> Result | Iterator[Chunk]:
        """Run code, ``python`` or ``bash``. Variables, imports and the directory stay.

        With ``stream`` what it writes comes while it runs; to stop reading ends the code.
        """
        chosen = self._languages.get(language)
        if chosen is None:
            known = ", ".join(sorted(self._languages))
            raise InvalidArgumentException(f"language must be one of {known}, not {language!r}")
        if stream:
            return self._stream(chosen, code)
        execution = chosen.run(code)
        logs = execution.logs
        return Result(_joined(logs.stdout), _joined(logs.stderr), execution.exit_code)

    def upload_file(self, local: str | PathLike[str], remote: str) -> None:
        """Copy a file of this machine into the sandbox."""
        self._sandbox.files.upload_file(local, remote)

    def download_file(self, remote: str, local: str | PathLike[str]) -> None:
        """Copy a file of the sandbox to this machine."""
        self._sandbox.files.download_file(remote, local)

    def read_file(self, path: str) -> str:
        """Return a file of the sandbox as text."""
        return self._sandbox.files.read_file(path)

    def destroy(self) -> None:
        """End the sandbox; nothing of it is left."""
        self._sandbox.destroy()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.destroy()

    def _stream(self, language: _Language, code: str) -> Iterator[Chunk]:
        running = _Running(self._sandbox, language, code)
        try:
            yield from running.chunks()
        finally:
            running.stop()


class _Shell:
    """A bash session that starts when it is first used."""

    def __init__(self, sandbox: SandboxSync) -> None:
        self._sandbox = sandbox
        self._session: str | None = None

    def run(self, code: str, handlers: ExecutionHandlersSync | None = None) -> Execution:
        commands = self._sandbox.commands
        self._session = self._session or commands.create_session()
        return commands.run_in_session(self._session, code, handlers=handlers)


class _Running:
    """Code that runs in a thread of its own, so that its output can be iterated over."""

    def __init__(self, sandbox: SandboxSync, language: _Language, code: str) -> None:
        self._sandbox = sandbox
        self._pieces: queue.Queue[Chunk | Exception | None] = queue.Queue(_BACKLOG)
        self._id: str | None = None
        self._is_wanted = True
        handlers = ExecutionHandlersSync(
            on_init=lambda init: setattr(self, "_id", init.id),
            on_stdout=lambda message: self._put(Chunk(stdout=_joined([message]))),
            on_stderr=lambda message: self._put(Chunk(stderr=_joined([message]))),
            skip_accumulation=True,
        )
        arguments = (language, code, handlers)
        self._thread = threading.Thread(target=self._run, args=arguments, daemon=True)
        self._thread.start()

    def chunks(self) -> Iterator[Chunk]:
        """Yield output until the code has ended; raise what went wrong with running it."""
        while (piece := self._pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def stop(self) -> None:
        """End the code if it still runs, and wait for the thread."""
        self._is_wanted = False
        if self._thread.is_alive() and self._id is not None:
            with suppress(SandboxException):  # it may just have ended
                self._sandbox.commands.interrupt(self._id)
        while self._thread.is_alive():
            self._drain()
            self._thread.join(0.01)

    def _run(self, language: _Language, code: str, handlers: ExecutionHandlersSync) -> None:
        try:
            language.run(code, handlers)
            self._pieces.put(None)
        except Exception as error:  # noqa: BLE001 - raised where the output is read
            self._pieces.put(error)

    def _put(self, chunk: Chunk) -> None:
        if self._is_wanted:
            self._pieces.put(chunk)

    def _drain(self) -> None:
        while not self._pieces.empty():
            self._pieces.get_nowait()


def _joined(messages: list[OutputMessage]) -> str:
    # An empty line is a line feed already; every other line has lost its own.
    return "".join(m.text if m.text == "\n" else f"{m.text}\n" for m in messages)
