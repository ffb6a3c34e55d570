# SPDX-License-Identifier: Apache-2.0
"""Packs local directories into tar streams and unpacks streams that nobody vouches for.

Packing and unpacking hold a block of one file at a time, whatever the size of the directory.
"""

import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from opensandbox.exceptions import InvalidArgumentException, SandboxInternalException

BLOCK = 1 << 18
"""How much of a file is in memory at once."""

MAX_LEFT_OUT = 1000
"""How many links that were left out are named: a sandbox may send any number."""

_PERMISSIONS = 0o777  # neither setuid nor setgid comes from a sandbox
_END = bytes(2 * tarfile.BLOCKSIZE)

Progress = Callable[[int, int | None], None]
"""Told how many bytes are done, and of how many if that is known."""


class Pulled:
    """A stream whose bytes are fetched, a chunk at a time, when somebody reads it."""

    def __init__(self, fetch: Callable[[], bytes]) -> None:
        """Read what ``fetch`` returns; an empty chunk is the end."""
        self._fetch = fetch
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return some bytes, at most ``size``; none at the end."""
        chunk = self._rest or self._fetch()
        end = len(chunk) if size < 0 else size
        self._rest = chunk[end:]
        return chunk[:end]


class Packed:
    """A local directory as a tar stream, a block at a time.

    Links stay links; sockets, FIFOs and devices are left out.
    """

    def __init__(self, directory: Path) -> None:
        """Look through a directory; its files are opened one by one while they are packed."""
        if not directory.is_dir():
            raise InvalidArgumentException(f"{directory} is not a directory on this machine")
        self._entries = [(path, path.lstat()) for path in _walk(directory)]
        self.total = sum(info.st_size for _, info in self._entries if stat.S_ISREG(info.st_mode))
        """How many bytes its files have together."""
        self.done = 0
        """How many of them were packed."""
        self._directory = directory
        self._blocks = self._pack()

    def next_block(self) -> bytes:
        """Return the next block; an empty one is the end."""
        return next(self._blocks, b"")

    def _pack(self) -> Iterator[bytes]:
        for path, info in self._entries:
            header = _header(self._directory, path, info)
            if header is None:
                continue
            yield header.tobuf(tarfile.PAX_FORMAT)
            if header.isreg():
                yield from self._content(path, header.size)
        yield _END

    def _content(self, path: Path, size: int) -> Iterator[bytes]:
        # The header has promised a size: what came since is left out, what is gone is zeros.
        remaining = size
        with path.open("rb") as file:
            while block := file.read(min(BLOCK, remaining)):
                remaining -= len(block)
                self.done += len(block)
                yield block
        self.done += remaining
        padding = remaining + -size % tarfile.BLOCKSIZE
        while padding:
            yield bytes(min(padding, BLOCK))
            padding -= min(padding, BLOCK)


def _walk(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _header(directory: Path, path: Path, info: os.stat_result) -> tarfile.TarInfo | None:
    header = tarfile.TarInfo(path.relative_to(directory).as_posix())
    header.mode = stat.S_IMODE(info.st_mode)
    header.mtime = int(info.st_mtime)
    if stat.S_ISREG(info.st_mode):
        header.size = info.st_size
    elif stat.S_ISDIR(info.st_mode):
        header.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(info.st_mode):
        header.type = tarfile.SYMTYPE
        header.linkname = str(path.readlink())
    else:
        return None
    return header


def unpack(stream: Pulled, directory: Path, progress: Progress | None = None) -> dict[str, str]:
    """Unpack a tar stream into a directory, made when missing. Nothing leaves that directory.

    Links stay links, and none is followed. Those that lead out are left out; returns where each
    leads, by name. A name that is absolute or has ``..``, a way through a link, a device and a hard
    link end it with an exception. What came before stays.
    """
    directory.mkdir(parents=True, exist_ok=True)
    done = 0
    left_out: dict[str, str] = {}
    try:
        source = cast("IO[bytes]", stream)  # it only reads
        with tarfile.open(fileobj=source, mode="r|", bufsize=BLOCK) as archive:
            for entry in archive:
                if entry.issym() and _leads_out(entry):
                    if len(left_out) < MAX_LEFT_OUT:
                        left_out[entry.name] = entry.linkname
                    continue
                target = _place(directory, entry)
                content = archive.extractfile(entry) if entry.isreg() else None
                for size in _unpack_one(entry, target, content):
                    done += size
                    if progress is not None:
                        progress(done, None)
    except tarfile.TarError as cause:
        message = f"the archive from the sandbox cannot be read: {cause}; try again"
        raise SandboxInternalException(message, cause) from cause
    return left_out


def _place(directory: Path, entry: tarfile.TarInfo) -> Path:
    name = PurePosixPath(entry.name)
    # Windows has more ways to leave a directory than a slash.
    is_strange = "\0" in entry.name or (os.sep == "\\" and set(entry.name) & set("\\:"))
    if name.is_absolute() or ".." in name.parts or is_strange:
        raise _refused(entry, "its name leads out of the directory")
    if not name.parts and not entry.isdir():
        raise _refused(entry, "it would replace the directory itself")
    parent = directory
    for part in name.parts[:-1]:
        parent /= part
        if parent.is_symlink():
            raise _refused(entry, "there is a link on its way")
        parent.mkdir(exist_ok=True)
    return directory.joinpath(*name.parts)


def _unpack_one(entry: tarfile.TarInfo, target: Path, content: IO[bytes] | None) -> Iterator[int]:
    if entry.isdir():
        _make_directory(entry, target)
    elif content is not None:
        yield from _write_file(entry, target, content)
    elif entry.issym():
        _clear(target)
        target.symlink_to(entry.linkname)
    else:
        raise _refused(entry, "only files, directories and symbolic links are unpacked")


def _make_directory(entry: tarfile.TarInfo, target: Path) -> None:
    if target.is_symlink():
        raise _refused(entry, "there is a link in its place")
    target.mkdir(exist_ok=True)
    # The owner must be able to fill it, whatever the archive says.
    target.chmod(entry.mode & _PERMISSIONS | stat.S_IRWXU)


def _write_file(entry: tarfile.TarInfo, target: Path, content: IO[bytes]) -> Iterator[int]:
    _clear(target)
    with target.open("xb") as file:
        while block := content.read(BLOCK):
            file.write(block)
            yield len(block)
    target.chmod(entry.mode & _PERMISSIONS | stat.S_IRUSR | stat.S_IWUSR)
    os.utime(target, (entry.mtime, entry.mtime))


def _clear(target: Path) -> None:
    # Opened as it is, a link would be written through.
    if target.is_symlink() or target.is_file():
        target.unlink()


def _leads_out(entry: tarfile.TarInfo) -> bool:
    # The directory of the link is a real one, so that only leading ".." go up from it. One behind
    # another name could come back from a link elsewhere.
    parts = PurePosixPath(entry.linkname).parts
    ups = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    depth = len(PurePosixPath(entry.name).parts) - 1
    return PurePosixPath(entry.linkname).is_absolute() or ups > depth or ".." in parts[ups:]


def _refused(entry: tarfile.TarInfo, reason: str) -> SandboxInternalException:
    return SandboxInternalException(
        f"refused {entry.name!r} of the sandbox's archive: {reason}; leave it out of the directory"
    )
