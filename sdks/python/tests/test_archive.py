# SPDX-License-Identifier: Apache-2.0
"""Archives made to get out of the directory they are unpacked in."""

import io
import tarfile
from pathlib import Path

import pytest

from opensandbox._archive import MAX_LEFT_OUT, Packed, Pulled, unpack
from opensandbox.exceptions import SandboxInternalException


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"") -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size, entry.mode = kind, link, len(content), 0o6777
    padding = bytes(-len(content) % tarfile.BLOCKSIZE)
    return entry.tobuf(tarfile.PAX_FORMAT) + content + padding


def _unpack(directory: Path, *entries: bytes) -> dict[str, str]:
    stream = io.BytesIO(b"".join(entries) + bytes(1024))
    return unpack(Pulled(lambda: stream.read(700)), directory)


HOSTILE = {
    "absolute": [_entry("/tmp/x", content=b"x")],
    "up": [_entry("../x", content=b"x")],
    "up in the middle": [_entry("a/../../x", content=b"x")],
    "itself": [_entry(".", content=b"x")],
    "through a link": [
        _entry("a/", tarfile.DIRTYPE),
        _entry("l", tarfile.SYMTYPE, "a"),
        _entry("l/x"),
    ],
    "link as directory": [_entry("l", tarfile.SYMTYPE, "a"), _entry("l", tarfile.DIRTYPE)],
    "hard link": [_entry("x", content=b"x"), _entry("h", tarfile.LNKTYPE, "x")],
    "hard link out": [_entry("h", tarfile.LNKTYPE, "/etc/passwd")],
    "device": [_entry("x", tarfile.CHRTYPE)],
    "block device": [_entry("x", tarfile.BLKTYPE)],
    "fifo": [_entry("x", tarfile.FIFOTYPE)],
}


@pytest.mark.parametrize("entries", HOSTILE.values(), ids=HOSTILE)
def test_what_leads_out_is_refused(entries: list[bytes], tmp_path: Path) -> None:
    directory = tmp_path / "inside"
    with pytest.raises(SandboxInternalException, match="refused"):
        _unpack(directory, *entries)
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    for path in directory.rglob("*"):
        assert path.resolve().is_relative_to(directory.resolve())


LEADING_OUT = {
    "absolute": ("l", "/etc"),
    "absolute and back": ("l", "/../etc"),
    "up": ("l", ".."),
    "up from below": ("a/l", "../../x"),
    "by another link": ("l", "here/.."),
}


@pytest.mark.parametrize(("name", "leads_to"), LEADING_OUT.values(), ids=LEADING_OUT)
def test_a_link_that_leads_out_is_left_out_and_named(
    tmp_path: Path, name: str, leads_to: str
) -> None:
    left_out = _unpack(
        tmp_path,
        _entry("here", tarfile.SYMTYPE, "."),
        _entry(name, tarfile.SYMTYPE, leads_to),
        _entry("after", content=b"x"),
    )
    assert left_out == {name: leads_to}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after", "here"]


def test_a_file_in_the_place_of_a_link_that_was_left_out_stays_inside(tmp_path: Path) -> None:
    directory = tmp_path / "inside"
    _unpack(directory, _entry("l", tarfile.SYMTYPE, str(tmp_path)), _entry("l/x", content=b"x"))
    assert (directory / "l" / "x").read_bytes() == b"x"
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


def test_a_sandbox_cannot_send_more_names_than_are_kept(tmp_path: Path) -> None:
    links = [_entry(f"l{number}", tarfile.SYMTYPE, "/") for number in range(MAX_LEFT_OUT + 5)]
    assert len(_unpack(tmp_path, *links)) == MAX_LEFT_OUT


def test_the_rest_is_unpacked_without_special_rights(tmp_path: Path) -> None:
    _unpack(tmp_path, _entry("a/b/c", content=b"x" * 2000), _entry("a/l", tarfile.SYMTYPE, "b/c"))
    assert (tmp_path / "a" / "l").read_bytes() == b"x" * 2000
    assert (tmp_path / "a" / "b" / "c").stat().st_mode & 0o7777 == 0o777


@pytest.mark.parametrize("size", [0, 100, 512, 1000])
def test_an_archive_that_is_cut_is_an_error(tmp_path: Path, size: int) -> None:
    stream = io.BytesIO(_entry("x", content=b"x" * 5000)[:size])
    with pytest.raises(SandboxInternalException):
        unpack(Pulled(lambda: stream.read(700)), tmp_path)


def test_a_file_that_shrinks_while_it_is_packed_keeps_its_place(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1" * 1000)
    (tmp_path / "two").write_bytes(b"2" * 10)
    packed = Packed(tmp_path)
    (tmp_path / "one").write_bytes(b"1" * 10)
    stream = io.BytesIO(b"".join(iter(packed.next_block, b"")))
    with tarfile.open(fileobj=stream) as archive:
        assert [(e.name, e.size) for e in archive] == [("one", 1000), ("two", 10)]
    assert packed.done == packed.total == 1010
