# SPDX-License-Identifier: Apache-2.0
"""Files that are not text: pictures, and bytes in and out of a sandbox."""

import base64 as encoding
import binascii
from typing import Annotated, Literal

from mcp.types import CallToolResult, ImageContent
from pydantic import Field

from opensandbox.exceptions import InvalidArgumentException
from opensandbox.models.filesystem import DEFAULT_MODE
from opensandbox_mcp.contents import image_type
from opensandbox_mcp.results import FileBytes, Status
from opensandbox_mcp.sandboxes import Call, sandboxes_of
from opensandbox_mcp.toolbox import ConnectIfMissing, Effect, Family, SandboxId
from opensandbox_mcp.tools.files import FilePath, Mode, Paths, read_beginning

family = Family()

Algorithm = Literal["sha256", "sha512", "sha1", "md5"]

MAX_IMAGE = 5 << 20
MAX_BYTES = 24_000  # of one download: 32,000 characters of base64


@family.tool(Effect.READS)
async def file_read_image(
    call: Call, sandbox_id: SandboxId, path: FilePath, connect_if_missing: ConnectIfMissing = False
) -> CallToolResult:
    """Show a picture: PNG, JPEG, GIF or WebP."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        content = await read_beginning(sandbox, path, MAX_IMAGE + 1)
    kind = image_type(content)
    if kind is None:
        raise InvalidArgumentException(f"{path} is no PNG, JPEG, GIF or WebP; try file_read.")
    if len(content) > MAX_IMAGE:
        raise InvalidArgumentException(f"{path} exceeds {MAX_IMAGE} bytes; make it smaller first.")
    picture = encoding.b64encode(content).decode()
    return CallToolResult(content=[ImageContent(data=picture, mime_type=kind)])


@family.tool(Effect.READS)
async def file_download(
    call: Call,
    sandbox_id: SandboxId,
    path: FilePath,
    offset: Annotated[int, Field(ge=0, description="In bytes; see next_offset.")] = 0,
    length: Annotated[int, Field(ge=1, le=MAX_BYTES, description="At most so many.")] = MAX_BYTES,
    connect_if_missing: ConnectIfMissing = False,
) -> FileBytes:
    """Return bytes of a file as base64, a part at a time, until next_offset is its size."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        (info,) = (await sandbox.files.get_file_info([path])).values()
        content = b""
        if offset < info.size:
            wanted = f"bytes={offset}-{offset + length - 1}"
            content = await read_beginning(sandbox, path, length, wanted)
    return FileBytes(
        path=path,
        base64=encoding.b64encode(content).decode(),
        offset=offset,
        next_offset=offset + len(content),
        size=info.size,
    )


@family.tool(Effect.DESTROYS)
async def file_upload(
    call: Call,
    sandbox_id: SandboxId,
    path: FilePath,
    base64: Annotated[str, Field(description="The whole new content.")],
    mode: Mode = DEFAULT_MODE,
    connect_if_missing: ConnectIfMissing = False,
) -> Status:
    """Write a file from base64; what was in it is replaced."""
    try:
        content = encoding.b64decode(base64, validate=True)
    except binascii.Error as cause:
        raise InvalidArgumentException(f"base64 cannot be read: {cause}", cause) from cause
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.files.write_file(path, content, mode=mode)
    return Status(status="written")


@family.tool(Effect.READS)
async def file_checksum(
    call: Call,
    sandbox_id: SandboxId,
    paths: Paths,
    algorithm: Annotated[Algorithm, Field(description="Which one.")] = "sha256",
    connect_if_missing: ConnectIfMissing = False,
) -> dict[str, str]:
    """Return the checksum of each file, in hexadecimal digits, by its path."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        return await sandbox.files.checksum(paths, algorithm)
