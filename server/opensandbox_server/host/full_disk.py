# SPDX-License-Identifier: Apache-2.0
"""A full disk, told from other faults and said so that somebody can act on it."""

from __future__ import annotations

import errno


def is_full(fault: BaseException) -> bool:
    """True when the system had no room for something, on a disk as a rule."""
    return isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EDQUOT)


def explain(fault: BaseException) -> str:
    """Return what a fault says; when there was no room, also where to look."""
    said = str(fault) or type(fault).__name__
    if not is_full(fault):
        return said
    assert isinstance(fault, OSError)
    return f"{fault.strerror}: is the disk of the data directory full?"
