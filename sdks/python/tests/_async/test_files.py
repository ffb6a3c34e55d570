# SPDX-License-Identifier: Apache-2.0
"""Files and directories, in a real execd."""

import hashlib
import io
import tracemalloc
from pathlib import Path

import pytest

from opensandbox import Sandbox
from opensandbox.exceptions import InvalidArgumentException, SandboxApiException
from opensandbox.models.filesystem import (
    ContentReplaceEntry,
    DirectoryListEntry,
    MoveEntry,
    SearchEntry,
    SetPermissionEntry,
    WriteEntry,
)

pytestmark = pytest.mark.anyio

MIB = 1 << 20
LARGE = 96 * MIB
FLAT = 16 * MIB  # a few blocks and the interpreter's own needs, far from the whole


class Zeros(io.RawIOBase):
    """A stream of zeros that nobody has in memory."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        taken = self.left if size < 0 else min(size, self.left)
        self.left -= taken
        return bytes(taken)


async def test_text_is_read_as_it_was_written(sandbox: Sandbox, workdir: str) -> None:
    path = f"{workdir}/deep/er/text.txt"
    await sandbox.files.write_file(path, "héllo\nworld\n", mode=640)
    assert await sandbox.files.read_file(path) == "héllo\nworld\n"
    info = (await sandbox.files.get_file_info([path]))[path]
    assert (info.entry_type, info.mode, info.size) == ("file", 640, 13)


async def test_bytes_of_every_kind_survive(sandbox: Sandbox, workdir: str) -> None:
    path = f"{workdir}/bytes"
    data = bytes(range(256)) * 8192 + b"\r\n--boundary--\r\n"
    await sandbox.files.write_file(path, data)
    assert await sandbox.files.read_bytes(path) == data


async def test_text_in_another_encoding_has_its_mark_once(sandbox: Sandbox, workdir: str) -> None:
    path = f"{workdir}/utf16"
    text = "ab" * MIB
    await sandbox.files.write_file(path, text, encoding="utf-16")
    assert await sandbox.files.read_bytes(path) == text.encode("utf-16")
    assert await sandbox.files.read_file(path, encoding="utf-16") == text


async def test_parts_of_a_file_are_read_by_bytes_or_lines(sandbox: Sandbox, workdir: str) -> None:
    path = f"{workdir}/lines"
    await sandbox.files.write_file(path, "line1\nline2\nline3\nline4\n")
    assert await sandbox.files.read_bytes(path, range_header="bytes=0-4") == b"line1"
    assert await sandbox.files.read_file(path, offset=2, limit=2) == "line2\nline3"


async def test_several_files_go_in_one_request(sandbox: Sandbox, workdir: str) -> None:
    entries = [
        WriteEntry(path=f"{workdir}/a", data="text"),
        WriteEntry(path=f"{workdir}/b", data=io.BytesIO(b"bytes"), mode=600),
        WriteEntry(path=f"{workdir}/c", data=io.StringIO("stream of text")),
        WriteEntry(path=f"{workdir}/empty", data=b""),
        WriteEntry(path=f'{workdir}/odd "name" \\ é', data="odd"),
    ]
    await sandbox.files.write_files(entries)
    contents = [await sandbox.files.read_bytes(entry.path) for entry in entries]
    assert contents == [b"text", b"bytes", b"stream of text", b"", b"odd"]
    info = await sandbox.files.get_file_info([f"{workdir}/b"])
    assert info[f"{workdir}/b"].mode == 600


async def test_nothing_to_write_sends_nothing(sandbox: Sandbox) -> None:
    await sandbox.files.write_files([])


async def test_a_local_file_is_sent_while_it_is_read(
    sandbox: Sandbox, workdir: str, tmp_path: Path
) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"x" * 3 * MIB)
    with local.open("rb") as stream:
        await sandbox.files.write_file(f"{workdir}/remote", stream)
    info = await sandbox.files.get_file_info([f"{workdir}/remote"])
    assert info[f"{workdir}/remote"].size == 3 * MIB


async def test_large_files_pass_through_at_flat_memory(sandbox: Sandbox, workdir: str) -> None:
    path = f"{workdir}/large"
    tracemalloc.start()
    try:
        await sandbox.files.write_file(path, Zeros(LARGE))
        digest, size = hashlib.sha256(), 0
        async for chunk in await sandbox.files.read_bytes_stream(path):
            digest.update(chunk)
            size += len(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == LARGE
    assert digest.digest() == hashlib.sha256(bytes(LARGE)).digest()
    assert peak < FLAT


async def test_a_stream_may_be_left_before_its_end(sandbox: Sandbox, workdir: str) -> None:
    path = f"{workdir}/left"
    await sandbox.files.write_file(path, bytes(8 * MIB))
    stream = await sandbox.files.read_bytes_stream(path, chunk_size=1000)
    async for chunk in stream:
        assert len(chunk) == 1000
        break
    await stream.aclose()  # type: ignore[attr-defined]
    assert (await sandbox.commands.run("echo alive")).text == "alive"


async def test_a_missing_file_is_an_error_at_once(sandbox: Sandbox, workdir: str) -> None:
    for read in (sandbox.files.read_bytes, sandbox.files.read_bytes_stream):
        with pytest.raises(SandboxApiException) as caught:
            await read(f"{workdir}/missing")
        assert caught.value.status_code == 404
        assert caught.value.error.code == "FILE_NOT_FOUND"


async def test_directories_are_made_listed_and_deleted(sandbox: Sandbox, workdir: str) -> None:
    top = f"{workdir}/top"
    await sandbox.files.create_directories([WriteEntry(path=f"{top}/a/b", mode=750)])
    await sandbox.files.write_file(f"{top}/a/file", "x")
    shallow = await sandbox.files.list_directory(DirectoryListEntry(path=top))
    assert [(e.path, e.entry_type) for e in shallow] == [(f"{top}/a", "directory")]
    deep = await sandbox.files.list_directory(DirectoryListEntry(path=top, depth=2))
    assert [e.path for e in deep] == [f"{top}/a", f"{top}/a/b", f"{top}/a/file"]
    await sandbox.files.delete_directories([top])
    with pytest.raises(SandboxApiException):
        await sandbox.files.list_directory(DirectoryListEntry(path=top))


async def test_files_are_moved_found_and_deleted(sandbox: Sandbox, workdir: str) -> None:
    await sandbox.files.write_file(f"{workdir}/one.txt", "1")
    await sandbox.files.write_file(f"{workdir}/two.md", "2")
    await sandbox.files.move_files([MoveEntry(src=f"{workdir}/two.md", dest=f"{workdir}/d/2.txt")])
    found = await sandbox.files.search(SearchEntry(path=workdir, pattern="*.txt"))
    assert sorted(entry.path for entry in found) == [f"{workdir}/d/2.txt", f"{workdir}/one.txt"]
    await sandbox.files.delete_files([entry.path for entry in found])
    assert await sandbox.files.search(SearchEntry(path=workdir, pattern="*.txt")) == []


async def test_contents_are_replaced_and_counted(sandbox: Sandbox, workdir: str) -> None:
    path = f"{workdir}/replace"
    await sandbox.files.write_file(path, "a b a")
    entry = ContentReplaceEntry(path=path, old_content="a", new_content="c")
    [result] = await sandbox.files.replace_contents_detailed([entry])
    assert (result.path, result.replaced_count) == (path, 2)
    back = ContentReplaceEntry(path=path, old_content="c", new_content="a")
    await sandbox.files.replace_contents([back])
    assert await sandbox.files.read_file(path) == "a b a"


async def test_permissions_are_set(sandbox: Sandbox, workdir: str) -> None:
    path = f"{workdir}/permissions"
    await sandbox.files.write_file(path, "x")
    await sandbox.files.set_permissions([SetPermissionEntry(path=path, mode=400)])
    assert (await sandbox.files.get_file_info([path]))[path].mode == 400


async def test_an_identity_is_part_of_every_path(sandbox: Sandbox, workdir: str) -> None:
    await sandbox.files.set_permissions([SetPermissionEntry(path=workdir, mode=777)])
    info = (await sandbox.files.get_file_info([workdir]))[workdir]
    me = await sandbox.commands.run("id -u; id -g")
    uid, gid = (int(line) for line in me.text.split())
    files = sandbox.files_with_identity(uid, gid)
    await files.write_file(f"{workdir}/mine", "x")
    assert (await files.get_file_info([f"{workdir}/mine"]))[f"{workdir}/mine"].owner == info.owner
    with pytest.raises(InvalidArgumentException):
        sandbox.files_with_identity(-1, 0)


async def test_what_cannot_be_written_is_refused(sandbox: Sandbox, workdir: str) -> None:
    with pytest.raises(InvalidArgumentException):
        await sandbox.files.write_files([WriteEntry(path=f"{workdir}/x")])
    with pytest.raises(InvalidArgumentException):
        await sandbox.files.write_file(f"{workdir}/x", "x", encoding="no-such")
    with pytest.raises(InvalidArgumentException):
        await sandbox.files.delete_files(workdir)
