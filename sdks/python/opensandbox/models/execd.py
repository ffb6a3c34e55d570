# SPDX-License-Identifier: Apache-2.0
"""What runs inside a sandbox reports: commands, code and their output."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Self

from pydantic import BaseModel, Field, model_validator

from opensandbox.models.results import ExecutionResult as ExecutionResult


class OutputMessage(BaseModel):
    """One piece of output, a line of a command."""

    text: str
    timestamp: int
    is_error: bool = False
    raw: bytes | None = Field(default=None, exclude=True, repr=False)
    """The exact bytes, line ends included; only a replay has them."""


class ExecutionError(BaseModel):
    """Why a run failed. A command's value is its exit code."""

    name: str
    value: str
    timestamp: int
    traceback: list[str] = Field(default_factory=list)


class ExecutionComplete(BaseModel):
    """A run ended well."""

    timestamp: int
    execution_time_in_millis: int


class ExecutionInit(BaseModel):
    """A run began; the id names it from now on."""

    id: str
    timestamp: int


class ExecutionLogs(BaseModel):
    """All output of a run, each stream in its own order."""

    stdout: list[OutputMessage] = Field(default_factory=list)
    stderr: list[OutputMessage] = Field(default_factory=list)

    def add_stdout(self, message: OutputMessage) -> None:
        """Append to stdout."""
        self.stdout.append(message)

    def add_stderr(self, message: OutputMessage) -> None:
        """Append to stderr."""
        self.stderr.append(message)


class Execution(BaseModel):
    """The events of one run, folded."""

    id: str | None = None
    execution_count: int | None = None
    result: list[ExecutionResult] = Field(default_factory=list)
    error: ExecutionError | None = None
    complete: ExecutionComplete | None = None
    exit_code: int | None = None
    logs: ExecutionLogs = Field(default_factory=ExecutionLogs)

    def add_result(self, result: ExecutionResult) -> None:
        """Append a result."""
        self.result.append(result)

    @property
    def text(self) -> str:
        """Stdout and results as one text; pieces without a line end of their own get one."""
        results = [(result.text or "").rstrip("\n") for result in self.result]
        return "\n".join(part for part in (_joined(self.logs.stdout), *results) if part)

    def __str__(self) -> str:
        """Everything there is to read, for people."""
        parts = [self.text]
        if self.logs.stderr:
            parts.append(f"[stderr]\n{_joined(self.logs.stderr)}")
        if self.error is not None:
            parts.append(f"[error] {self.error.name}: {self.error.value}")
        return "\n".join(part for part in parts if part)


def _joined(messages: list[OutputMessage]) -> str:
    pieces: list[str] = []
    for message in messages:
        has_line_end = not pieces or pieces[-1].endswith(("\r", "\n"))
        if not has_line_end and not message.text.startswith(("\r", "\n")):
            pieces.append("\n")
        pieces.append(message.text)
    return "".join(pieces).replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


class ExecutionHandlers(BaseModel):
    """What to call while a run goes on. With skip_accumulation nothing is kept in the Execution."""

    on_stdout: Callable[[OutputMessage], Awaitable[None]] | None = None
    on_stderr: Callable[[OutputMessage], Awaitable[None]] | None = None
    on_result: Callable[[ExecutionResult], Awaitable[None]] | None = None
    on_execution_complete: Callable[[ExecutionComplete], Awaitable[None]] | None = None
    on_error: Callable[[ExecutionError], Awaitable[None]] | None = None
    on_init: Callable[[ExecutionInit], Awaitable[None]] | None = None
    skip_accumulation: bool = False


class RunCommandOpts(BaseModel):
    """How to run a command."""

    background: bool = False
    working_directory: str | None = None
    timeout: timedelta | None = None
    uid: int | None = Field(default=None, ge=0)
    gid: int | None = Field(default=None, ge=0)
    envs: dict[str, str] | None = None
    stdin: bool = False
    """Keep its stdin open for ``commands.write_stdin``; without it there is nothing to read."""

    @model_validator(mode="after")
    def _require_uid_with_gid(self) -> Self:
        if self.gid is not None and self.uid is None:
            raise ValueError("gid needs uid")
        return self


class CommandStatus(BaseModel):
    """What became of a command."""

    id: str | None = None
    content: str | None = None
    running: bool | None = None
    exit_code: int | None = None
    error: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class CommandLogs(BaseModel):
    """A stretch of a background command's output and where the next one begins."""

    content: str
    cursor: int | None = None


class CommandReplay(BaseModel):
    """What a command has written so far, byte for byte, and how it ended if it has."""

    execution: Execution
    stdout: bytes
    stderr: bytes
    cursor: int
    """Where the next replay begins."""
    gaps: list[tuple[int, int]] = Field(default_factory=list)
    """Stretches of output that were dropped before anybody read them."""
