# SPDX-License-Identifier: Apache-2.0
"""Where a program looks for its libraries: read it from the file, and point it elsewhere."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"
"""64 bits, little end first: every machine that the embedded runtime runs on."""
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<qQ")
_LOAD, _DYNAMIC = 1, 2
_END, _STRINGS, _RPATH, _RUNPATH = 0, 5, 15, 29


@dataclass(frozen=True, slots=True)
class Runpath:
    """The directories searched first, and where in the file they are written."""

    text: str
    offset: int


def read_runpath(content: bytes) -> Runpath | None:
    """Find the search path in a program or library; None when it has none or is neither."""
    if not content.startswith(_MAGIC):
        return None
    segments = list(_segments(content))
    entries = dict(_entries(content, segments))
    place = entries.get(_RUNPATH, entries.get(_RPATH))
    if place is None or _STRINGS not in entries:
        return None
    offset = _in_file(segments, entries[_STRINGS]) + place
    return Runpath(content[offset : content.index(b"\0", offset)].decode(), offset)


def replace_runpath(file: Path, text: str) -> bool:
    """Write another search path over the one in a file; False when it has not enough room."""
    found = read_runpath(file.read_bytes())
    if found is None or len(text.encode()) > len(found.text.encode()):
        return False
    with file.open("r+b") as program:
        program.seek(found.offset)
        program.write(text.encode().ljust(len(found.text.encode()), b"\0"))
    return True


def _segments(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield kind, offset in the file, address and size of each segment."""
    header = _HEADER.unpack_from(content)
    start, size, count = header[5], header[9], header[10]
    for number in range(count):
        kind, _, offset, address, _, length, _, _ = _SEGMENT.unpack_from(
            content, start + number * size
        )
        yield kind, offset, address, length


def _entries(
    content: bytes, segments: list[tuple[int, int, int, int]]
) -> Iterator[tuple[int, int]]:
    for kind, offset, _, length in segments:
        if kind == _DYNAMIC:
            for tag, value in _ENTRY.iter_unpack(content[offset : offset + length]):
                if tag == _END:
                    return
                yield tag, value


def _in_file(segments: list[tuple[int, int, int, int]], address: int) -> int:
    for kind, offset, start, length in segments:
        if kind == _LOAD and start <= address < start + length:
            return offset + address - start
    raise ValueError("the table of strings lies outside of the file")
