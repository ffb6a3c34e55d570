# SPDX-License-Identifier: Apache-2.0
"""The envelope of an upload. The files themselves pass by without being held."""

import codecs
import json
import secrets
from collections.abc import Callable
from io import IOBase, TextIOBase
from pathlib import PurePosixPath
from typing import cast

from opensandbox.exceptions import InvalidArgumentException
from opensandbox.models.filesystem import WriteEntry

BLOCK = 1 << 18
"""How much of a file is in memory at once."""


class Multipart:
    """One multipart body: a metadata part and a file part for each entry, in order."""

    def __init__(self) -> None:
        self._boundary = secrets.token_hex(16)

    @property
    def content_type(self) -> str:
        """The value of Content-Type."""
        return f"multipart/form-data; boundary={self._boundary}"

    def head(self, entry: WriteEntry) -> bytes:
        """Return everything before the bytes of a file."""
        metadata = {
            "path": entry.path,
            "owner": entry.owner,
            "group": entry.group,
            "mode": entry.mode,
        }
        is_text = isinstance(entry.data, (str, TextIOBase))
        media = f"text/plain; charset={entry.encoding}" if is_text else "application/octet-stream"
        return (
            self._part("metadata", "metadata", "application/json")
            + json.dumps(metadata).encode()
            + b"\r\n"
            + self._part("file", PurePosixPath(entry.path).name or "file", media)
        )

    def tail(self) -> bytes:
        """Return the end of the body."""
        return f"--{self._boundary}--\r\n".encode()

    def _part(self, name: str, filename: str, media: str) -> bytes:
        return (
            f"--{self._boundary}\r\n"
            f'Content-Disposition: form-data; name="{name}"; filename="{_quoted(filename)}"\r\n'
            f"Content-Type: {media}\r\n\r\n"
        ).encode()


def _quoted(filename: str) -> str:
    # Line ends would end the header, and percent signs are what browsers write for them.
    escaped = filename.replace("\\", "\\\\").replace('"', '\\"')
    return escaped.replace("\r", "%0D").replace("\n", "%0A")


class Source:
    """The bytes of one entry, a block at a time."""

    def __init__(self, entry: WriteEntry) -> None:
        self.entry = entry
        self.may_block = isinstance(entry.data, IOBase)
        self._read = _block_reader(entry)
        self._encode = _encoder(entry.encoding)

    def next_block(self) -> bytes:
        """Return the next block; an empty one is the end."""
        block = self._read()
        return self._encode(block) if isinstance(block, str) else bytes(block)


def _encoder(encoding: str) -> Callable[[str], bytes]:
    # Incremental: a mark at the beginning of a text is written once, not once a block.
    try:
        return codecs.getincrementalencoder(encoding)().encode
    except LookupError as cause:
        raise InvalidArgumentException(f"unknown encoding: {encoding}", cause) from cause


def _block_reader(entry: WriteEntry) -> Callable[[], bytes | str]:
    data = entry.data
    if data is None:
        raise InvalidArgumentException(f"{entry.path}: data is required to write a file")
    if isinstance(data, IOBase):
        read = getattr(data, "read", None)
        if read is None:
            raise InvalidArgumentException(f"{entry.path}: the stream cannot be read")
        return lambda: cast("bytes | str", read(BLOCK) or b"")
    blocks = (data[start : start + BLOCK] for start in range(0, len(data), BLOCK))
    return lambda: next(blocks, b"")
