# SPDX-License-Identifier: Apache-2.0
"""Copies files and directories between this machine and a sandbox, at flat memory."""

import os
import stat
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path, PurePosixPath

from opensandbox._archive import BLOCK, Packed, Progress, unpack
from opensandbox._drafts import drafting
from opensandbox._multipart import Multipart, Source
from opensandbox.exceptions import InvalidArgumentException
from opensandbox.models.filesystem import WriteEntry

from .transport import Remote, reading
from .waiting import run_blocking, run_reading


async def upload_file(
    execd: Remote,
    prefix: str,
    local: Path,
    remote: str,
    mode: int | None,
    progress: Progress | None,
) -> None:
    """Send a file of this machine; without a mode it keeps the one it has here."""
    if not local.is_file():
        raise InvalidArgumentException(f"{local} is not a file on this machine")
    with local.open("rb") as file:
        info = os.fstat(file.fileno())
        kept = int(f"{stat.S_IMODE(info.st_mode):o}")
        entry = WriteEntry(path=remote, data=file, mode=kept if mode is None else mode)
        multipart = Multipart()
        headers = {"Content-Type": multipart.content_type}
        body = _upload(multipart, Source(entry), info.st_size, progress)
        await execd.send("POST", f"{prefix}/files/upload", content=body, headers=headers)


async def _upload(
    multipart: Multipart, source: Source, total: int, progress: Progress | None
) -> AsyncIterator[bytes]:
    yield multipart.head(source.entry)
    done = 0
    while block := await run_blocking(source.next_block):
        yield block
        done += len(block)
        if progress is not None:
            progress(done, max(total, done))
    yield b"\r\n" + multipart.tail()


async def download_file(
    execd: Remote, prefix: str, remote: str, local: Path, progress: Progress | None
) -> None:
    """Write a file of the sandbox here. It appears whole, or not at all."""
    if local.is_dir():
        local /= PurePosixPath(remote).name
    local.parent.mkdir(parents=True, exist_ok=True)
    response = await execd.open("GET", f"{prefix}/files/download", query=[("path", remote)])
    async with reading(response):
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        with drafting(local) as draft:
            done = 0
            async for chunk in response.aiter_bytes(BLOCK):
                await run_blocking(partial(draft.write, chunk))
                done += len(chunk)
                if progress is not None:
                    progress(done, total)


async def upload_directory(
    execd: Remote, prefix: str, local: Path, remote: str, progress: Progress | None
) -> None:
    """Send what is in a directory of this machine; what is in the way there is replaced."""
    packed = await run_blocking(lambda: Packed(local))
    headers = {"Content-Type": "application/x-tar"}
    path, query = f"{prefix}/directories/archive", [("path", remote)]
    await execd.send("POST", path, query=query, content=_pack(packed, progress), headers=headers)


async def _pack(packed: Packed, progress: Progress | None) -> AsyncIterator[bytes]:
    done = 0
    while block := await run_blocking(packed.next_block):
        yield block
        if progress is not None and packed.done > done:
            done = packed.done
            progress(done, packed.total)


async def download_directory(
    execd: Remote, prefix: str, remote: str, local: Path, progress: Progress | None
) -> dict[str, str]:
    """Unpack a directory of the sandbox here; returns which links were left out.

    Nothing is written outside of ``local``.
    """
    path, query = f"{prefix}/directories/archive", [("path", remote)]
    response = await execd.open("GET", path, query=query)
    async with reading(response):
        chunks = response.aiter_bytes(BLOCK)
        return await run_reading(chunks, lambda stream: unpack(stream, local, progress))
