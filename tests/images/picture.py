# SPDX-License-Identifier: Apache-2.0
"""Read a PNG whole, so that a damaged one is found."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}


@dataclass(frozen=True)
class Picture:
    """What a PNG shows."""

    width: int
    height: int
    colours: frozenset[bytes]


def read_png(data: bytes) -> Picture:
    """Decode a PNG of eight bits a channel that is not interlaced, checksums included."""
    assert data.startswith(SIGNATURE)
    chunks = list(_chunks(data[len(SIGNATURE) :]))
    assert chunks[-1][0] == b"IEND"
    width, height, depth, kind, _, _, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (depth, interlace) == (8, 0)
    size = _CHANNELS[kind]
    packed = b"".join(body for name, body in chunks if name == b"IDAT")
    rows = _rows(zlib.decompress(packed), width * size, size)
    assert len(rows) == height
    pixels = (row[at : at + size] for row in rows for at in range(0, len(row), size))
    return Picture(width, height, frozenset(pixels))


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    while data:
        (length,) = struct.unpack(">I", data[:4])
        name, body = data[4:8], data[8 : 8 + length]
        (checksum,) = struct.unpack(">I", data[8 + length : 12 + length])
        assert zlib.crc32(name + body) == checksum
        found.append((name, body))
        data = data[12 + length :]
    return found


def _rows(raw: bytes, length: int, size: int) -> list[bytes]:
    """Undo the filters: each byte was written as a difference to what is left of it and above."""
    rows: list[bytes] = []
    above = bytes(length)
    for start in range(0, len(raw), length + 1):
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + length])
        for at in range(length):
            left = row[at - size] if at >= size else 0
            corner = above[at - size] if at >= size else 0
            row[at] = (row[at] + _predicted(kind, left, above[at], corner)) & 255
        above = bytes(row)
        rows.append(above)
    return rows


def _predicted(kind: int, left: int, up: int, corner: int) -> int:
    if kind == 4:  # the one of the three that is nearest to left + up - corner
        guess = left + up - corner
        return min((left, up, corner), key=lambda value: abs(guess - value))
    return (0, left, up, (left + up) // 2)[kind]
