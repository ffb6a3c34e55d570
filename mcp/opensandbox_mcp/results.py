# SPDX-License-Identifier: Apache-2.0
"""What tools answer with, where it is not a model of the client itself."""

from datetime import datetime
from typing import Self

from pydantic import BaseModel

from opensandbox.models.charts import Chart
from opensandbox.models.execd import Execution, ExecutionError, ExecutionLogs
from opensandbox.models.filesystem import EntryInfo
from opensandbox.models.sandboxes import SandboxEndpoint, SandboxInfo


class Status(BaseModel):
    """It was done."""

    status: str


class HeldSandbox(BaseModel):
    """A sandbox that this server holds from now on."""

    sandbox_id: str
    info: SandboxInfo


class Health(BaseModel):
    """Whether a sandbox answers."""

    sandbox_id: str
    healthy: bool


class Endpoint(BaseModel):
    """The endpoint of a port, and what requests to it must carry."""

    endpoint: str
    headers: dict[str, str]
    origin: str | None = None

    @classmethod
    def of(cls, found: SandboxEndpoint) -> Self:
        """Name every field, also where it is empty, as the published server does."""
        return cls(endpoint=found.endpoint, headers=dict(found.headers), origin=found.origin)


class CommandResult(Execution):
    """What came of a command. Long output is cut in the middle; the note says how to read on."""

    note: str | None = None


class Value(BaseModel):
    """The value of an expression, or what code displayed. Pictures are beside this answer."""

    text: str | None
    forms: list[str]
    """The media types of its other forms."""
    chart: Chart | None
    """What a picture of a chart shows."""


class CodeResult(BaseModel):
    """What came of a piece of code. Long output is cut in the middle."""

    id: str | None
    result: list[Value]
    error: ExecutionError | None
    logs: ExecutionLogs
    note: str | None = None


class CommandOutput(BaseModel):
    """A stretch of what a command wrote."""

    content: str
    offset: int
    """Where this stretch begins, in bytes."""
    next_offset: int
    """Where the next one begins."""
    size: int
    """How much there is now."""
    running: bool
    exit_code: int | None = None
    note: str | None = None


class CommandLogsPage(BaseModel):
    """A stretch of a background command's log, both streams together."""

    content: str
    cursor: int
    """Where the next stretch begins."""
    running: bool
    exit_code: int | None = None
    note: str | None = None


class Session(BaseModel):
    """A shell that stays."""

    session_id: str


class FileContent(BaseModel):
    """A file as text. When it is long, the note says how to read on."""

    path: str
    content: str
    note: str | None = None


class FileBytes(BaseModel):
    """A stretch of a file as base64."""

    path: str
    base64: str
    offset: int
    next_offset: int
    size: int


class Entry(BaseModel):
    """A file, a directory, a link or something else."""

    path: str
    type: str | None
    mode: int
    owner: str
    group: str
    size: int
    modified_at: datetime
    created_at: datetime

    @classmethod
    def of(cls, info: EntryInfo) -> Self:
        """Name the fields as the published server does."""
        return cls(type=info.entry_type, **info.model_dump(exclude={"entry_type"}))


class Entries(BaseModel):
    """What is in a directory, bounded."""

    entries: list[Entry]
    note: str | None = None


class Workspace(BaseModel):
    """The sandbox of this conversation."""

    sandbox_id: str
    is_kept: bool
    expires_at: datetime | None = None
