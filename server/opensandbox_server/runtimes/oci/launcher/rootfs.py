# SPDX-License-Identifier: Apache-2.0
"""The root of one sandbox: a read-only image whose ids are mapped, and a private upper."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from opensandbox_server.runtimes.oci.launcher import syscalls

_LOWER = syscalls.MOUNT_ATTR_IDMAP | syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NODEV


_ETC_FILES = ("hostname", "hosts", "resolv.conf")
GET_FLAGS, SET_FLAGS = 0x80086601, 0x40086602
"""The ioctls of `lsattr` and `chattr`."""
TOP_OF_TREES = 0x00020000
"""What `chattr +T` sets."""


class IdsCannotBeMapped(Exception):
    """No sandbox can have the files of an image where the image is."""


def spread(directory: Path) -> None:
    """Let ext4 put every sandbox below directory into another part of the disk.

    It would put them side by side, and since it does not soon use the number of a deleted file
    again, where sandboxes come and go it would pass hundreds of those for each new file.
    """
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = array.array("l", [0])
        with contextlib.suppress(OSError):  # another file system knows no such flag
            fcntl.ioctl(opened, GET_FLAGS, flags)
            flags[0] |= TOP_OF_TREES
            fcntl.ioctl(opened, SET_FLAGS, flags)
    finally:
        os.close(opened)


def make_directory(directory: Path, first_id: int) -> None:
    """Make the directory of a sandbox: what an overlay writes to, owned by the sandbox's root.

    It is made ahead, with the files write_etc fills: on a busy disk a new file takes its time.
    """
    directory.mkdir(mode=0o711)
    upper, work = directory / "upper", directory / "work"
    for made in (upper, work, upper / "etc"):
        made.mkdir(mode=0o755)
        os.chown(made, first_id, first_id)
    for name in _ETC_FILES:
        file = upper / "etc" / name
        file.touch(mode=0o644)
        os.chown(file, first_id, first_id)


def write_etc(directory: Path, hostname: str, address: str | None, nameserver: str | None) -> None:
    """Fill the files of /etc that depend on the sandbox and not on its image."""
    for name, text in etc_files(hostname, address, nameserver).items():
        (directory / "upper" / "etc" / name).write_text(text)


def mount_rootfs(image: str, directory: str, bundle_dir: Path, userns: int, first_id: int) -> Path:
    """Mount image below an upper in directory, at bundle_dir/rootfs, and return that path.

    An overlay writes as whoever mounts it. As root it would give a sandbox the blocks that ext4
    reserves for root, and nobody could end it on a full disk; so it is mounted as its first id.

    The overlay is volatile: a sandbox's files need not survive a power failure, and unmounting must
    not wait until everything dirty on the disk is written.
    """
    lower, root = bundle_dir / "lower", bundle_dir / "rootfs"
    lower.mkdir()
    root.mkdir()
    tree = syscalls.clone_tree(image)
    try:
        with _mapping():
            syscalls.set_mount_attributes(tree, _LOWER, userns)
        syscalls.attach(tree, str(lower))
    finally:
        os.close(tree)
    options: dict[str, str | int | None] = {
        "source": "overlay",
        "lowerdir": str(lower),
        "upperdir": f"{directory}/upper",
        "workdir": f"{directory}/work",
        "volatile": None,
    }
    with syscalls.files_as(first_id):
        overlay = syscalls.new_filesystem("overlay", options)
    try:
        syscalls.attach(overlay, str(root))
    finally:
        os.close(overlay)
    return root


@contextlib.contextmanager
def _mapping() -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        if fault.errno != errno.EINVAL:
            raise
        raise IdsCannotBeMapped(
            f"Linux {os.uname().release} cannot map the ids of files where images are kept "
            "(on a tmpfs only since 6.3); put server.data_dir on ext4, xfs or btrfs"
        ) from fault


def etc_files(hostname: str, address: str | None, nameserver: str | None) -> dict[str, str]:
    """Return the files of /etc that depend on the sandbox and not on its image. Pure."""
    own = f"{address}\t{hostname}\n" if address else f"127.0.1.1\t{hostname}\n"
    return {
        "hostname": f"{hostname}\n",
        "hosts": f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{own}",
        "resolv.conf": f"nameserver {nameserver}\n" if nameserver else "",
    }
