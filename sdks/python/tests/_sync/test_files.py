# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_files.py by scripts/unasync.py; change it there.
"""Files and directories, in a real execd."""

import hashlib
import io
import tracemalloc
from pathlib import Path

import pytest

from opensandbox import SandboxSync
from opensandbox.exceptions import InvalidArgumentException, SandboxApiException
from opensandbox.models.filesystem import (
    ContentReplaceEntry,
    DirectoryListEntry,
    MoveEntry,
    SearchEntry,
    SetPermissionEntry,
    WriteEntry,
)

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


def test_text_is_read_as_it_was_written(sandbox: SandboxSync, workdir: str) -> None:
    path = f"{workdir}/deep/er/text.txt"
    sandbox.files.write_file(path, "héllo\nworld\n", mode=640)
    assert sandbox.files.read_file(path) == "héllo\nworld\n"
    info = (sandbox.files.get_file_info([path]))[path]
    assert (info.entry_type, info.mode, info.size) == ("file", 640, 13)


def test_bytes_of_every_kind_survive(sandbox: SandboxSync, workdir: str) -> None:
    path = f"{workdir}/bytes"
    data = bytes(range(256)) * 8192 + b"\r\n--boundary--\r\n"
    sandbox.files.write_file(path, data)
    assert sandbox.files.read_bytes(path) == data


def test_text_in_another_encoding_has_its_mark_once(sandbox: SandboxSync, workdir: str) -> None:
    path = f"{workdir}/utf16"
    text = "ab" * MIB
    sandbox.files.write_file(path, text, encoding="utf-16")
    assert sandbox.files.read_bytes(path) == text.encode("utf-16")
    assert sandbox.files.read_file(path, encoding="utf-16") == text


def test_parts_of_a_file_are_read_by_bytes_or_lines(sandbox: SandboxSync, workdir: str) -> None:
    path = f"{workdir}/lines"
    sandbox.files.write_file(path, "line1\nline2\nline3\nline4\n")
    assert sandbox.files.read_bytes(path, range_header="bytes=0-4") == b"line1"
    assert sandbox.files.read_file(path, offset=2, limit=2) == "line2\nline3"


def test_several_files_go_in_one_request(sandbox: SandboxSync, workdir: str) -> None:
    entries = [
        WriteEntry(path=f"{workdir}/a", data="text"),
        WriteEntry(path=f"{workdir}/b", data=io.BytesIO(b"bytes"), mode=600),
        WriteEntry(path=f"{workdir}/c", data=io.StringIO("stream of text")),
        WriteEntry(path=f"{workdir}/empty", data=b""),
        WriteEntry(path=f'{workdir}/odd "name" \\ é', data="odd"),
    ]
    sandbox.files.write_files(entries)
    contents = [sandbox.files.read_bytes(entry.path) for entry in entries]
    assert contents == [b"text", b"bytes", b"stream of text", b"", b"odd"]
    info = sandbox.files.get_file_info([f"{workdir}/b"])
    assert info[f"{workdir}/b"].mode == 600


def test_nothing_to_write_sends_nothing(sandbox: SandboxSync) -> None:
    sandbox.files.write_files([])


def test_a_local_file_is_sent_while_it_is_read(
    sandbox: SandboxSync, workdir: str, tmp_path: Path
) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"x" * 3 * MIB)
    with local.open("rb") as stream:
        sandbox.files.write_file(f"{workdir}/remote", stream)
    info = sandbox.files.get_file_info([f"{workdir}/remote"])
    assert info[f"{workdir}/remote"].size == 3 * MIB


def test_large_files_pass_through_at_flat_memory(sandbox: SandboxSync, workdir: str) -> None:
    path = f"{workdir}/large"
    tracemalloc.start()
    try:
        sandbox.files.write_file(path, Zeros(LARGE))
        digest, size = hashlib.sha256(), 0
        for chunk in sandbox.files.read_bytes_stream(path):
            digest.update(chunk)
            size += len(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == LARGE
    assert digest.digest() == hashlib.sha256(bytes(LARGE)).digest()
    assert peak < FLAT


def test_a_stream_may_be_left_before_its_end(sandbox: SandboxSync, workdir: str) -> None:
    path = f"{workdir}/left"
    sandbox.files.write_file(path, bytes(8 * MIB))
    stream = sandbox.files.read_bytes_stream(path, chunk_size=1000)
    for chunk in stream:
        assert len(chunk) == 1000
        break
    stream.close()  # type: ignore[attr-defined]
    assert (sandbox.commands.run("echo alive")).text == "alive"


def test_a_missing_file_is_an_error_at_once(sandbox: SandboxSync, workdir: str) -> None:
    for read in (sandbox.files.read_bytes, sandbox.files.read_bytes_stream):
        with pytest.raises(SandboxApiException) as caught:
            read(f"{workdir}/missing")
        assert caught.value.status_code == 404
        assert caught.value.error.code == "FILE_NOT_FOUND"


def test_directories_are_made_listed_and_deleted(sandbox: SandboxSync, workdir: str) -> None:
    top = f"{workdir}/top"
    sandbox.files.create_directories([WriteEntry(path=f"{top}/a/b", mode=750)])
    sandbox.files.write_file(f"{top}/a/file", "x")
    shallow = sandbox.files.list_directory(DirectoryListEntry(path=top))
    assert [(e.path, e.entry_type) for e in shallow] == [(f"{top}/a", "directory")]
    deep = sandbox.files.list_directory(DirectoryListEntry(path=top, depth=2))
    assert [e.path for e in deep] == [f"{top}/a", f"{top}/a/b", f"{top}/a/file"]
    sandbox.files.delete_directories([top])
    with pytest.raises(SandboxApiException):
        sandbox.files.list_directory(DirectoryListEntry(path=top))


def test_files_are_moved_found_and_deleted(sandbox: SandboxSync, workdir: str) -> None:
    sandbox.files.write_file(f"{workdir}/one.txt", "1")
    sandbox.files.write_file(f"{workdir}/two.md", "2")
    sandbox.files.move_files([MoveEntry(src=f"{workdir}/two.md", dest=f"{workdir}/d/2.txt")])
    found = sandbox.files.search(SearchEntry(path=workdir, pattern="*.txt"))
    assert sorted(entry.path for entry in found) == [f"{workdir}/d/2.txt", f"{workdir}/one.txt"]
    sandbox.files.delete_files([entry.path for entry in found])
    assert sandbox.files.search(SearchEntry(path=workdir, pattern="*.txt")) == []


def test_contents_are_replaced_and_counted(sandbox: SandboxSync, workdir: str) -> None:
    path = f"{workdir}/replace"
    sandbox.files.write_file(path, "a b a")
    entry = ContentReplaceEntry(path=path, old_content="a", new_content="c")
    [result] = sandbox.files.replace_contents_detailed([entry])
    assert (result.path, result.replaced_count) == (path, 2)
    back = ContentReplaceEntry(path=path, old_content="c", new_content="a")
    sandbox.files.replace_contents([back])
    assert sandbox.files.read_file(path) == "a b a"


def test_permissions_are_set(sandbox: SandboxSync, workdir: str) -> None:
    path = f"{workdir}/permissions"
    sandbox.files.write_file(path, "x")
    sandbox.files.set_permissions([SetPermissionEntry(path=path, mode=400)])
    assert (sandbox.files.get_file_info([path]))[path].mode == 400


def test_an_identity_is_part_of_every_path(sandbox: SandboxSync, workdir: str) -> None:
    sandbox.files.set_permissions([SetPermissionEntry(path=workdir, mode=777)])
    info = (sandbox.files.get_file_info([workdir]))[workdir]
    me = sandbox.commands.run("id -u; id -g")
    uid, gid = (int(line) for line in me.text.split())
    files = sandbox.files_with_identity(uid, gid)
    files.write_file(f"{workdir}/mine", "x")
    assert (files.get_file_info([f"{workdir}/mine"]))[f"{workdir}/mine"].owner == info.owner
    with pytest.raises(InvalidArgumentException):
        sandbox.files_with_identity(-1, 0)


def test_what_cannot_be_written_is_refused(sandbox: SandboxSync, workdir: str) -> None:
    with pytest.raises(InvalidArgumentException):
        sandbox.files.write_files([WriteEntry(path=f"{workdir}/x")])
    with pytest.raises(InvalidArgumentException):
        sandbox.files.write_file(f"{workdir}/x", "x", encoding="no-such")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.delete_files(workdir)
