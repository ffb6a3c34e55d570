# SPDX-License-Identifier: Apache-2.0
"""The Linux calls that Python has no function for; their numbers are the same everywhere."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MS_SHARED = 0x100000
MNT_DETACH = 2

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_IDMAP = 0x100000

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_SECUREBITS = 28
SECBIT_NO_SETUID_FIXUP = 4

_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 442
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_FSOPEN_CLOEXEC = 1
_FSMOUNT_CLOEXEC = 1
_SET_FLAG, _SET_STRING, _SET_FD, _CREATE = 0, 1, 5, 6

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _syscall(what: str, number: int, *args: object) -> int:
    return _checked(int(_libc.syscall(ctypes.c_long(number), *args)), what)


def unshare(flags: int) -> None:
    """Leave the namespaces named by flags for new ones."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(namespace: int, kind: int) -> None:
    """Put the calling thread into a namespace given by descriptor."""
    _checked(_libc.setns(ctypes.c_int(namespace), ctypes.c_int(kind)), "setns")


def prctl(option: int, value: int) -> None:
    """Set one property of the calling process."""
    _checked(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), 0, 0, 0), "prctl")


@contextlib.contextmanager
def files_as(owner: int) -> Iterator[None]:
    """Let this thread deal with files as another user, and keep what root may do."""
    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)  # or a change of user takes that away
    _libc.setfsuid(ctypes.c_uint(owner))
    try:
        yield
    finally:
        _libc.setfsuid(ctypes.c_uint(0))
        prctl(PR_SET_SECUREBITS, 0)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount the old way."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _checked(result, f"mount {kind} on {target}")


def detach(target: str) -> None:
    """Take a mount out of this namespace now; it ends when its last user is gone."""
    _checked(_libc.umount2(target.encode(), ctypes.c_int(MNT_DETACH)), f"unmount {target}")


def clone_tree(path: str) -> int:
    """Return a detached copy of the mount at path, without what is mounted below it."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC
    return _syscall(
        f"open_tree {path}", _OPEN_TREE, ctypes.c_int(AT_FDCWD), path.encode(), ctypes.c_uint(flags)
    )


def set_mount_attributes(
    tree: int, attributes: int, userns: int = 0, *, propagation: int = 0
) -> None:
    """Restrict a detached mount, and map its ids through userns when MOUNT_ATTR_IDMAP is given."""
    wanted = _MountAttr(attributes, 0, propagation, userns)
    _syscall(
        "mount_setattr",
        _MOUNT_SETATTR,
        ctypes.c_int(tree),
        b"",
        ctypes.c_uint(AT_EMPTY_PATH),
        ctypes.byref(wanted),
        ctypes.c_size_t(ctypes.sizeof(wanted)),
    )


def attach(tree: int, target: str) -> None:
    """Give a detached mount a place."""
    _syscall(
        f"move_mount to {target}",
        _MOVE_MOUNT,
        ctypes.c_int(tree),
        b"",
        ctypes.c_int(AT_FDCWD),
        target.encode(),
        ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH),
    )


def new_filesystem(kind: str, options: dict[str, str | int | None]) -> int:
    """Make a file system and return its detached mount.

    An option is a text, a descriptor (int) or, with None, a flag.
    """
    context = _syscall(f"fsopen {kind}", _FSOPEN, kind.encode(), ctypes.c_uint(_FSOPEN_CLOEXEC))
    try:
        for name, value in options.items():
            _configure(context, name, value)
        _fsconfig(context, _CREATE, None, None, 0, f"create {kind}")
        return _syscall(
            f"fsmount {kind}",
            _FSMOUNT,
            ctypes.c_int(context),
            ctypes.c_uint(_FSMOUNT_CLOEXEC),
            ctypes.c_uint(0),
        )
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}{_kernel_words(context)}") from error
    finally:
        os.close(context)


def _configure(context: int, name: str, value: str | int | None) -> None:
    what = f"option {name}"
    if value is None:
        _fsconfig(context, _SET_FLAG, name.encode(), None, 0, what)
    elif isinstance(value, int):
        _fsconfig(context, _SET_FD, name.encode(), None, value, what)
    else:
        _fsconfig(context, _SET_STRING, name.encode(), value.encode(), 0, what)


def _fsconfig(
    context: int, command: int, key: bytes | None, value: bytes | None, aux: int, what: str
) -> None:
    _syscall(
        what,
        _FSCONFIG,
        ctypes.c_int(context),
        ctypes.c_uint(command),
        key,
        value,
        ctypes.c_int(aux),
    )


def _kernel_words(context: int) -> str:
    """Read what the kernel wrote about a failed mount."""
    try:
        words = os.read(context, 4096).decode(errors="replace").strip()
    except OSError:
        return ""
    return f" ({words})"
