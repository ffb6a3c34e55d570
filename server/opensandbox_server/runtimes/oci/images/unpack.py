# SPDX-License-Identifier: Apache-2.0
"""Unpack layers of an image into a directory, trusting nothing in them.

Every name is resolved by the kernel with the directory as its root, so a layer cannot write
outside, whatever links it or an earlier layer made. Device nodes are left out: a
sandbox gets its own /dev. Set-user-id bits are kept: in a sandbox they cannot give more than the
sandbox has.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from opensandbox_server.runtimes.oci.images.beneath import open_beneath
from opensandbox_server.runtimes.oci.images.bounds import BadArchive, BoundedHeader, Room

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
_XATTR = "SCHILY.xattr."
_CHUNK = 1024 * 1024
_ZSTD = b"\x28\xb5\x2f\xfd"
_DEEPEST = 200
"""Directories in one name: each is opened and, in the end, removed within the one above it."""
_FAULTS_OF_ARCHIVES = {errno.EINVAL, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR}
"""Not those of the disk, as when it is full."""


def unpack_layer(source: IO[bytes], root: Path, room: Room) -> int:
    """Unpack one layer, a tar compressed or not, over root; return the bytes of its files.

    Room is what is left for this layer and those after it. Raises BadArchive.
    """
    if source.read(len(_ZSTD)) == _ZSTD:
        raise BadArchive(
            "a layer is compressed with zstd, which cannot be read here; convert the image with: "
            "skopeo copy --dest-compress-format gzip"
        )
    source.seek(0)
    total = 0
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with tarfile.open(fileobj=source, mode="r|*", tarinfo=BoundedHeader) as archive:
            layer = _Layer(directory)
            for member in archive:
                room.take(member)
                total += layer.take(member, archive)
            layer.finish()
    except (tarfile.TarError, EOFError) as fault:
        raise BadArchive(f"the layer is damaged: {fault}") from fault
    except OSError as fault:
        if fault.errno not in _FAULTS_OF_ARCHIVES:
            raise
        raise BadArchive(f"the layer has a name that cannot be: {fault.strerror}") from fault
    finally:
        os.close(directory)
    return total


class _Layer:
    """Applies the members of one layer, in order."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._directories: list[tuple[list[str], tarfile.TarInfo]] = []
        self._made: set[tuple[str, ...]] = set()

    def take(self, member: tarfile.TarInfo, archive: tarfile.TarFile) -> int:
        parts = _parts(member.name)
        if not parts:
            if member.isdir():
                self._directories.append(([], member))
            return 0
        with _opened_parent(self._root, parts[:-1]) as parent:
            name = parts[-1]
            if name == OPAQUE:
                self._empty(parent, parts[:-1])
                return 0
            if name.startswith(WHITEOUT):
                _remove(parent, name.removeprefix(WHITEOUT))
                return 0
            self._made.add(tuple(parts))
            return self._make(parent, name, parts, member, archive)

    def finish(self) -> None:
        """Set the times and modes of directories last: files in them change the times."""
        for parts, member in reversed(self._directories):
            with _opened_parent(self._root, parts) as directory:
                os.fchown(directory, member.uid, member.gid)
                os.fchmod(directory, member.mode & 0o7777)
                os.utime(directory, (member.mtime, member.mtime))

    def _make(
        self,
        parent: int,
        name: str,
        parts: list[str],
        member: tarfile.TarInfo,
        archive: tarfile.TarFile,
    ) -> int:
        if member.isdir():
            _make_directory(parent, name)
            self._directories.append((parts, member))
            return 0
        if member.isreg():
            _remove(parent, name)
            return _write_file(parent, name, member, archive)
        if member.issym():
            _remove(parent, name)
            os.symlink(member.linkname, name, dir_fd=parent)
            os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        elif member.islnk():
            self._link(parent, name, member)
        elif member.isfifo():
            _remove(parent, name)
            os.mkfifo(name, member.mode & 0o7777, dir_fd=parent)
            os.chown(name, member.uid, member.gid, dir_fd=parent, follow_symlinks=False)
        return 0

    def _link(self, parent: int, name: str, member: tarfile.TarInfo) -> None:
        aim = _parts(member.linkname)
        if not aim:
            raise BadArchive(f"{member.name} is a hard link to nothing")
        with _opened_parent(self._root, aim[:-1]) as directory:
            try:
                found = os.stat(aim[-1], dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                raise BadArchive(f"{member.name} is a hard link to nothing") from None
            if stat.S_ISDIR(found.st_mode):
                raise BadArchive(f"{member.name} is a hard link to a directory")
            if aim == _parts(member.name):
                return
            _remove(parent, name)
            os.link(aim[-1], name, src_dir_fd=directory, dst_dir_fd=parent, follow_symlinks=False)

    def _empty(self, directory: int, parts: list[str]) -> None:
        """Remove what earlier layers put into a directory; what this layer made stays."""
        for name in os.listdir(directory):
            if not any(made[: len(parts) + 1] == (*parts, name) for made in self._made):
                _remove(directory, name)


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise BadArchive(f"{name!r} leads out of the image")
    if len(parts) > _DEEPEST:
        raise BadArchive(f"{'/'.join(parts[:5])}/… is deeper than {_DEEPEST} directories")
    return parts


@contextlib.contextmanager
def _opened_parent(root: int, parts: list[str]) -> Iterator[int]:
    directory = _open_or_make(root, parts)
    try:
        yield directory
    finally:
        os.close(directory)


def _open_or_make(root: int, parts: list[str]) -> int:
    """Open a directory, making what is missing; a link in the way is followed inside the image."""
    try:
        return open_beneath(root, "/".join(parts))
    except FileNotFoundError:
        if not parts:
            raise
    except OSError as fault:
        raise BadArchive(f"{'/'.join(parts)} is no directory: {fault.strerror}") from fault
    with _opened_parent(root, parts[:-1]) as parent:
        try:
            os.mkdir(parts[-1], 0o755, dir_fd=parent)
        except FileExistsError:
            raise BadArchive(f"a layer writes through {parts[-1]}, which leads nowhere") from None
    return open_beneath(root, "/".join(parts))


def _make_directory(parent: int, name: str) -> None:
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        os.mkdir(name, 0o755, dir_fd=parent)
        return
    if not stat.S_ISDIR(found.st_mode):
        _remove(parent, name)
        os.mkdir(name, 0o755, dir_fd=parent)


def _write_file(parent: int, name: str, member: tarfile.TarInfo, archive: tarfile.TarFile) -> int:
    source = archive.extractfile(member)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=parent), "wb") as target:
        if source is not None:
            shutil.copyfileobj(source, target, _CHUNK)
        target.flush()
        descriptor = target.fileno()
        os.fchown(descriptor, member.uid, member.gid)
        os.fchmod(descriptor, member.mode & 0o7777)
        _set_attributes(descriptor, member)
        os.utime(descriptor, (member.mtime, member.mtime))
    return member.size


def _set_attributes(descriptor: int, member: tarfile.TarInfo) -> None:
    """Keep the file capabilities and user attributes; no others are an image's business."""
    for key, value in member.pax_headers.items():
        name = key.removeprefix(_XATTR)
        if key.startswith(_XATTR) and (name == "security.capability" or name.startswith("user.")):
            with contextlib.suppress(OSError):
                os.setxattr(descriptor, name, value.encode("utf-8", "surrogateescape"))


def _remove(parent: int, name: str) -> None:
    """Remove whatever is there, never following a link."""
    if name in ("", ".", ".."):
        raise BadArchive(f"{name!r} leads out of the image")
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        shutil.rmtree(name, dir_fd=parent)
