# SPDX-License-Identifier: Apache-2.0
"""Reading, writing and arranging files in a sandbox."""

from typing import Annotated

from pydantic import BaseModel, Field

from opensandbox import Sandbox
from opensandbox.models.filesystem import (
    DEFAULT_MODE,
    ContentReplaceEntry,
    ContentReplaceResult,
    DirectoryListEntry,
    MoveEntry,
    SearchEntry,
    SetPermissionEntry,
    WriteEntry,
)
from opensandbox_mcp.contents import text_of
from opensandbox_mcp.output import SHOWN
from opensandbox_mcp.results import Entries, Entry, FileContent, Status
from opensandbox_mcp.sandboxes import Call, sandboxes_of
from opensandbox_mcp.toolbox import ConnectIfMissing, Effect, Family, SandboxId

family = Family()

MAX_ENTRIES = 500  # of one listing; a model reads no more

FilePath = Annotated[str, Field(description="Absolute path in the sandbox.")]
Paths = Annotated[list[str], Field(description="Absolute paths in the sandbox.")]
Mode = Annotated[int, Field(ge=0, description="Permissions, written as octal digits: 644.")]
Owner = Annotated[str | None, Field(description="Name of the owner.")]
Group = Annotated[str | None, Field(description="Name of the group.")]


class DirectoryEntry(BaseModel):
    """A directory to make."""

    path: FilePath
    mode: Mode = DEFAULT_MODE
    owner: Owner = None
    group: Group = None


@family.tool(Effect.READS)
async def file_read(
    call: Call,
    sandbox_id: SandboxId,
    path: FilePath,
    encoding: Annotated[str, Field(description="Of the text in it.")] = "utf-8",
    range_header: Annotated[str | None, Field(description='Such as "bytes=0-1023".')] = None,
    connect_if_missing: ConnectIfMissing = False,
) -> FileContent:
    """Read a text file; a long one a part at a time."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        content = await read_beginning(sandbox, path, SHOWN + 1, range_header)
    return text_of(
        path,
        content[:SHOWN],
        encoding,
        range_header=range_header,
        has_more=len(content) > SHOWN,
    )


async def read_beginning(
    sandbox: Sandbox, path: str, limit: int, range_header: str | None = None
) -> bytes:
    """Return at most ``limit`` bytes of a file; the rest is not fetched."""
    content = bytearray()
    chunks = await sandbox.files.read_bytes_stream(path, range_header=range_header)
    try:
        async for chunk in chunks:
            content += chunk
            if len(content) >= limit:
                break
    finally:
        await chunks.aclose()  # type: ignore[attr-defined] # the SDK hands out a generator
    return bytes(content[:limit])


@family.tool(Effect.DESTROYS)
async def file_write(
    call: Call,
    sandbox_id: SandboxId,
    path: FilePath,
    content: Annotated[str, Field(description="The whole new content.")],
    encoding: Annotated[str, Field(description="To write the text in.")] = "utf-8",
    mode: Mode = DEFAULT_MODE,
    owner: Owner = None,
    group: Group = None,
    connect_if_missing: ConnectIfMissing = False,
) -> Status:
    """Write a text file, making the directories above it; what was in it is replaced."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.files.write_file(
            path, content, encoding=encoding, mode=mode, owner=owner, group=group
        )
    return Status(status="written")


@family.tool(Effect.DESTROYS)
async def file_delete(
    call: Call, sandbox_id: SandboxId, paths: Paths, connect_if_missing: ConnectIfMissing = False
) -> Status:
    """Delete files; missing ones are no error."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.files.delete_files(paths)
    return Status(status="deleted")


@family.tool(Effect.READS)
async def file_search(
    call: Call,
    sandbox_id: SandboxId,
    path: FilePath,
    pattern: Annotated[str, Field(description='Of the names, such as "*.py".')],
    connect_if_missing: ConnectIfMissing = False,
) -> list[Entry]:
    """Find files below a directory by a pattern of their names."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        found = await sandbox.files.search(SearchEntry(path=path, pattern=pattern))
    return [Entry.of(info) for info in found]


@family.tool(Effect.READS)
async def file_list(
    call: Call,
    sandbox_id: SandboxId,
    path: FilePath,
    depth: Annotated[int | None, Field(ge=0, description="How deep; 1 is what is in it.")] = None,
    connect_if_missing: ConnectIfMissing = False,
) -> Entries:
    """List what is in a directory."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        found = await sandbox.files.list_directory(DirectoryListEntry(path=path, depth=depth))
    note = None
    if len(found) > MAX_ENTRIES:
        note = (
            f"{len(found)} entries, of which {MAX_ENTRIES} are shown; narrow it with file_search."
        )
    return Entries(entries=[Entry.of(info) for info in found[:MAX_ENTRIES]], note=note)


@family.tool(Effect.READS)
async def file_info(
    call: Call, sandbox_id: SandboxId, paths: Paths, connect_if_missing: ConnectIfMissing = False
) -> list[Entry]:
    """Tell type, size, permissions, owner and times of files."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        found = await sandbox.files.get_file_info(paths)
    return [Entry.of(info) for info in found.values()]


@family.tool(Effect.CHANGES)
async def file_create_directories(
    call: Call,
    sandbox_id: SandboxId,
    entries: list[DirectoryEntry],
    connect_if_missing: ConnectIfMissing = False,
) -> Status:
    """Make directories and those above them."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        wanted = [WriteEntry(**entry.model_dump()) for entry in entries]
        await sandbox.files.create_directories(wanted)
    return Status(status="created")


@family.tool(Effect.DESTROYS)
async def file_delete_directories(
    call: Call, sandbox_id: SandboxId, paths: Paths, connect_if_missing: ConnectIfMissing = False
) -> Status:
    """Delete directories with all that is in them; missing ones are no error."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.files.delete_directories(paths)
    return Status(status="deleted")


@family.tool(Effect.DESTROYS)
async def file_move(
    call: Call,
    sandbox_id: SandboxId,
    entries: list[MoveEntry],
    connect_if_missing: ConnectIfMissing = False,
) -> Status:
    """Move or rename files and directories."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.files.move_files(entries)
    return Status(status="moved")


@family.tool(Effect.DESTROYS)
async def file_replace_contents(
    call: Call,
    sandbox_id: SandboxId,
    entries: list[ContentReplaceEntry],
    connect_if_missing: ConnectIfMissing = False,
) -> list[ContentReplaceResult]:
    """Replace text in files, everywhere it occurs, and tell how often it was found in each."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        return await sandbox.files.replace_contents_detailed(entries)


@family.tool(Effect.CHANGES)
async def file_set_permissions(
    call: Call,
    sandbox_id: SandboxId,
    entries: list[SetPermissionEntry],
    connect_if_missing: ConnectIfMissing = False,
) -> Status:
    """Set mode, owner and group of files."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.files.set_permissions(entries)
    return Status(status="set")
