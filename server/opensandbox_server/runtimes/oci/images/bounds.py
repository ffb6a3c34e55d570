# SPDX-License-Identifier: Apache-2.0
"""How much an image may be: a small archive can ask for more than any disk or memory has."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from opensandbox_server.runtimes.base import RuntimeFault

MOST_BYTES = 128 * 1024**3
MOST_ENTRIES = 1_000_000
_LARGEST_HEADER = 1024 * 1024
"""Of a name, or of the attributes of a file; tarfile reads it whole into memory."""
_HEADERS = {
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
}


class BadArchive(RuntimeFault):
    """The archive is damaged, or asks for something no image may have."""


@dataclass(slots=True)
class Room:
    """What is left for an image while it is unpacked: bytes, and files of all kinds."""

    bytes: int
    entries: int = MOST_ENTRIES

    @classmethod
    def below(cls, directory: Path) -> Room:
        """Return the room for one image; a tenth of what is free stays for the sandboxes."""
        return cls(min(MOST_BYTES, shutil.disk_usage(directory).free * 9 // 10))

    def take(self, member: tarfile.TarInfo) -> None:
        """Take the room that an entry says it needs, before it gets it. Raises BadArchive."""
        self.bytes -= member.size
        self.entries -= 1
        if self.bytes < 0:
            raise BadArchive(
                f"the image is too large at {member.name[:100]!r}: unpacked it may have "
                f"{MOST_BYTES // 1024**3} GiB and nine tenths of what is free; free some space, "
                "or look into the archive"
            )
        if self.entries < 0:
            raise BadArchive(
                f"the image has more than {MOST_ENTRIES} files, with those that later layers "
                "replace; make it of fewer layers, or look into the archive"
            )


class BoundedHeader(tarfile.TarInfo):
    """A header that asks for no more memory than one needs."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> BoundedHeader:
        """Read a block. Raises BadArchive."""
        header = super().frombuf(buf, encoding, errors)
        if header.type in _HEADERS and header.size > _LARGEST_HEADER:
            raise BadArchive(f"the archive has a header of {header.size} bytes")
        return header
