# SPDX-License-Identifier: Apache-2.0
"""Files and directories inside a sandbox. Modes are decimal numbers whose digits are octal."""

from datetime import datetime
from io import IOBase

from pydantic import BaseModel, ConfigDict, Field

from opensandbox.models.wire import NonBlank

DEFAULT_MODE = 755


class EntryInfo(BaseModel):
    """A file, a directory, a link or something else."""

    model_config = ConfigDict(populate_by_name=True)

    path: str
    entry_type: str | None = Field(
        default=None, validation_alias="type", serialization_alias="type"
    )
    mode: int
    owner: str
    group: str
    size: int
    modified_at: datetime
    created_at: datetime


class WriteEntry(BaseModel):
    """A file to write, or a directory to make. A stream is read while it is sent."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    path: NonBlank
    data: str | bytes | IOBase | None = None
    mode: int = Field(default=DEFAULT_MODE, ge=0)
    owner: str | None = None
    group: str | None = None
    encoding: NonBlank = "utf-8"


class MoveEntry(BaseModel):
    """A file or directory to move."""

    model_config = ConfigDict(populate_by_name=True)

    src: NonBlank = Field(validation_alias="source")
    dest: NonBlank = Field(validation_alias="destination")


class SetPermissionEntry(BaseModel):
    """Who owns a path and what they may do with it."""

    path: NonBlank
    owner: str | None = None
    group: str | None = None
    mode: int = Field(default=DEFAULT_MODE, ge=0)


class ContentReplaceEntry(BaseModel):
    """Text to replace in a file, everywhere in it."""

    path: NonBlank
    old_content: str
    new_content: str


class ContentReplaceResult(BaseModel):
    """How often text was replaced in a file."""

    path: str
    replaced_count: int


class SearchEntry(BaseModel):
    """Where to search and for which names."""

    path: NonBlank
    pattern: NonBlank


class DirectoryListEntry(BaseModel):
    """Which directory to list and how deep."""

    path: NonBlank
    depth: int | None = Field(default=None, ge=0)


class FileEvent(BaseModel):
    """Something that happened to a file.

    ``ready`` comes first and says that everything from now on is seen; then ``create``, ``write``,
    ``remove``, ``rename`` and ``chmod``; ``overflow`` says that some were lost.
    """

    type: str
    path: str = ""
    timestamp: int
