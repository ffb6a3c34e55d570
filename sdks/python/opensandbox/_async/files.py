# SPDX-License-Identifier: Apache-2.0
"""Reads, writes and arranges files inside a sandbox. Large ones pass through at flat memory."""

from collections.abc import AsyncIterator, Sequence
from io import IOBase
from os import PathLike
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel, Field, TypeAdapter

from opensandbox._archive import Progress
from opensandbox._failures import refused_arguments
from opensandbox._multipart import Multipart, Source
from opensandbox._requests import download_query
from opensandbox.exceptions import InvalidArgumentException
from opensandbox.models.filesystem import (
    DEFAULT_MODE,
    ContentReplaceEntry,
    ContentReplaceResult,
    DirectoryListEntry,
    EntryInfo,
    FileEvent,
    MoveEntry,
    SearchEntry,
    SetPermissionEntry,
    WriteEntry,
)

from .copies import download_directory, download_file, upload_directory, upload_file
from .transport import Remote, json_lines, reading
from .waiting import run_blocking

CHUNK = 64 << 10


class _Replaced(BaseModel):
    replaced_count: int = Field(validation_alias="replacedCount")


class _Checksum(BaseModel):
    digest: str


_CHECKSUMS = TypeAdapter(dict[str, _Checksum])
_ENTRIES = TypeAdapter(list[EntryInfo])
_ENTRIES_BY_PATH = TypeAdapter(dict[str, EntryInfo])
_REPLACED_BY_PATH = TypeAdapter(dict[str, _Replaced])


class Files:
    """Files and directories of one sandbox."""

    def __init__(self, execd: Remote, prefix: str = "") -> None:
        """Speak to this execd; a prefix acts as somebody else."""
        self._execd = execd
        self._prefix = prefix

    async def read_file(
        self,
        path: str,
        *,
        encoding: str = "utf-8",
        range_header: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> str:
        """Return a file as text: all of it, a range of bytes, or lines (``offset``, ``limit``)."""
        content = await self.read_bytes(path, range_header=range_header, offset=offset, limit=limit)
        return content.decode(encoding)

    async def read_bytes(
        self,
        path: str,
        *,
        range_header: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> bytes:
        """Return a file as bytes."""
        response = await self._download(path, range_header, offset, limit)
        async with reading(response):
            return await response.aread()

    async def read_bytes_stream(
        self,
        path: str,
        *,
        chunk_size: int = CHUNK,
        range_header: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[bytes]:
        """Return the file piece by piece, as it arrives. Read it to the end or close it."""
        response = await self._download(path, range_header, offset, limit)
        return _chunks(response, chunk_size)

    async def write_file(
        self,
        path: str,
        data: str | bytes | IOBase,
        *,
        encoding: str = "utf-8",
        mode: int = DEFAULT_MODE,
        owner: str | None = None,
        group: str | None = None,
    ) -> None:
        """Write one file, making its directories. A stream is read while it is sent."""
        with refused_arguments():
            entry = WriteEntry(
                path=path, data=data, encoding=encoding, mode=mode, owner=owner, group=group
            )
        await self.write_files([entry])

    async def write_files(self, entries: Sequence[WriteEntry]) -> None:
        """Write several files in one request."""
        if not entries:
            return
        sources = [Source(entry) for entry in entries]
        multipart = Multipart()
        headers = {"Content-Type": multipart.content_type}
        body = _body(multipart, sources)
        await self._send("POST", "/files/upload", content=body, headers=headers)

    async def create_directories(self, entries: Sequence[WriteEntry]) -> None:
        """Make directories and those above them; existing ones stay as they are."""
        await self._send("POST", "/directories", json=_permissions(entries))

    async def delete_files(self, paths: Sequence[str]) -> None:
        """Delete files; missing ones are no error."""
        await self._send("DELETE", "/files", query=_paths(paths))

    async def delete_directories(self, paths: Sequence[str]) -> None:
        """Delete directories with all that is in them; missing ones are no error."""
        await self._send("DELETE", "/directories", query=_paths(paths))

    async def move_files(self, entries: Sequence[MoveEntry]) -> None:
        """Move files or directories."""
        moves = [{"src": entry.src, "dest": entry.dest} for entry in entries]
        await self._send("POST", "/files/mv", json=moves)

    async def set_permissions(self, entries: Sequence[SetPermissionEntry]) -> None:
        """Set mode, owner and group."""
        await self._send("POST", "/files/permissions", json=_permissions(entries))

    async def replace_contents(self, entries: Sequence[ContentReplaceEntry]) -> None:
        """Replace text in files, everywhere it occurs."""
        await self._send("POST", "/files/replace", json=_replacements(entries))

    async def replace_contents_detailed(
        self, entries: Sequence[ContentReplaceEntry]
    ) -> list[ContentReplaceResult]:
        """Replace text in files and return how often it was found in each."""
        replaced = await self._execd.ask(
            _REPLACED_BY_PATH,
            "POST",
            f"{self._prefix}/files/replace",
            query=[("verbose", "true")],
            json=_replacements(entries),
        )
        return [
            ContentReplaceResult(path=path, replaced_count=result.replaced_count)
            for path, result in replaced.items()
        ]

    async def search(self, entry: SearchEntry) -> list[EntryInfo]:
        """Return the files below a path whose names match a pattern."""
        query = [("path", entry.path), ("pattern", entry.pattern)]
        return await self._execd.ask(_ENTRIES, "GET", f"{self._prefix}/files/search", query=query)

    async def list_directory(self, entry: DirectoryListEntry) -> list[EntryInfo]:
        """Return what is in a directory, down to a depth."""
        query = [("path", entry.path)]
        if entry.depth is not None:
            query.append(("depth", str(entry.depth)))
        path = f"{self._prefix}/directories/list"
        return await self._execd.ask(_ENTRIES, "GET", path, query=query)

    async def get_file_info(self, paths: Sequence[str]) -> dict[str, EntryInfo]:
        """Return what is known of each path; a missing one is an error."""
        path = f"{self._prefix}/files/info"
        return await self._execd.ask(_ENTRIES_BY_PATH, "GET", path, query=_paths(paths))

    async def checksum(self, paths: Sequence[str], algorithm: str = "sha256") -> dict[str, str]:
        """Return the checksum of each file: ``sha256``, ``sha512``, ``sha1`` or ``md5``, in hex."""
        query = [*_paths(paths), ("algorithm", algorithm)]
        path = f"{self._prefix}/files/checksum"
        sums = await self._execd.ask(_CHECKSUMS, "GET", path, query=query)
        return {path: checksum.digest for path, checksum in sums.items()}

    async def watch(self, path: str, *, recursive: bool = False) -> AsyncIterator[FileEvent]:
        """Yield what happens to a file or in a directory, and below it when ``recursive``.

        The first event is ``ready``: from then on nothing is missed. It ends when the path is gone.
        """
        query = [("path", path), ("recursive", str(recursive).lower())]
        where = f"{self._prefix}/files/watch"
        async for event in json_lines(self._execd, where, query=query):
            if event.get("type") != "ping":
                yield FileEvent.model_validate(event)

    async def upload_file(
        self,
        local: str | PathLike[str],
        remote: str,
        *,
        mode: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Copy a file of this machine into the sandbox; ``mode`` None keeps the one it has here.

        ``progress`` is called with the bytes done and the bytes in all.
        """
        await upload_file(self._execd, self._prefix, Path(local), remote, mode, progress)

    async def download_file(
        self, remote: str, local: str | PathLike[str], *, progress: Progress | None = None
    ) -> None:
        """Copy a file of the sandbox to this machine, whole or not at all."""
        await download_file(self._execd, self._prefix, remote, Path(local), progress)

    async def upload_directory(
        self, local: str | PathLike[str], remote: str, *, progress: Progress | None = None
    ) -> None:
        """Copy the content of a directory of this machine to one of the sandbox."""
        await upload_directory(self._execd, self._prefix, Path(local), remote, progress)

    async def download_directory(
        self, remote: str, local: str | PathLike[str], *, progress: Progress | None = None
    ) -> dict[str, str]:
        """Copy the content of a directory of the sandbox to one of this machine.

        The sandbox is not trusted: what would be written outside of ``local`` is refused. A link is
        copied as one and never followed; links that lead out of the directory are left out. Returns
        those, at most a thousand: where each leads, by its path in the directory.
        """
        return await download_directory(self._execd, self._prefix, remote, Path(local), progress)

    async def _download(
        self, path: str, range_header: str | None, offset: int | None, limit: int | None
    ) -> httpx.Response:
        return await self._execd.open(
            "GET",
            f"{self._prefix}/files/download",
            query=download_query(path, offset, limit),
            headers={"Range": range_header} if range_header else None,
        )

    async def _send(self, method: str, path: str, **options: Any) -> None:
        await self._execd.send(method, self._prefix + path, **options)


async def _body(multipart: Multipart, sources: Sequence[Source]) -> AsyncIterator[bytes]:
    before = b""
    for source in sources:
        before += multipart.head(source.entry)
        while block := await _next_block(source):
            yield before + block if before else block
            before = b""
        before += b"\r\n"
    yield before + multipart.tail()


async def _next_block(source: Source) -> bytes:
    if source.may_block:
        return await run_blocking(source.next_block)
    return source.next_block()


async def _chunks(response: httpx.Response, size: int) -> AsyncIterator[bytes]:
    async with reading(response):
        async for chunk in response.aiter_bytes(size):
            if chunk:  # an empty one would look like the end to whoever waits for that
                yield chunk


def _paths(paths: Sequence[str]) -> list[tuple[str, str]]:
    if isinstance(paths, str):
        raise InvalidArgumentException("a list of paths is needed")
    return [("path", path) for path in paths]


def _permissions(
    entries: Sequence[WriteEntry] | Sequence[SetPermissionEntry],
) -> dict[str, dict[str, Any]]:
    return {
        entry.path: {"mode": entry.mode, "owner": entry.owner, "group": entry.group}
        for entry in entries
    }


def _replacements(entries: Sequence[ContentReplaceEntry]) -> dict[str, dict[str, str]]:
    return {entry.path: {"old": entry.old_content, "new": entry.new_content} for entry in entries}
