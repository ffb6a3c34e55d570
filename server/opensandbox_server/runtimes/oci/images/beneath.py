# SPDX-License-Identifier: Apache-2.0
"""Open directories of an image as its own programs would see them: links end inside its root."""

from __future__ import annotations

import ctypes
import os

_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_beneath(root: int, path: str) -> int:
    """Open a directory below root; absolute links and .. cannot lead above it."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    how = _How(flags, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    result = int(
        _libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(root),
            os.fsencode(path or "."),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
    )
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return result
