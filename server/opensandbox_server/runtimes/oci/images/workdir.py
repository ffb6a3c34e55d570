# SPDX-License-Identifier: Apache-2.0
"""The directory an image wants its programs to begin in."""

from __future__ import annotations

import posixpath
from collections import deque
from pathlib import Path

_KERNEL = ("proc", "sys", "dev")
"""What is mounted there leads elsewhere: /proc/self/fd has what the launcher has open."""
_MOST_LINKS = 40


class BadWorkingDirectory(ValueError):
    """No program may begin there; the message says why."""


def working_directory(root: Path, text: str) -> str:
    """Return it as a clean path. Raises BadWorkingDirectory.

    Links of the image count: whoever follows one ends where it leads.
    """
    if not text.startswith("/") or ".." in text.split("/") or not text.isprintable():
        raise BadWorkingDirectory(f"the image begins in {text!r}, which is no clean path")
    clean = posixpath.normpath("/" + text.lstrip("/"))
    place: list[str] = []
    rest, links = deque(_parts(clean)), 0
    while rest:
        part = rest.popleft()
        place = place[:-1] if part == ".." else [*place, part]
        if place and place[0] in _KERNEL:
            raise BadWorkingDirectory(f"the image begins in {text!r}, which is the kernel's")
        file = root.joinpath(*place)
        if file.is_symlink():
            links += 1
            if links > _MOST_LINKS:
                raise BadWorkingDirectory(f"the image begins in {text!r}, whose links never end")
            target = str(file.readlink())
            place = [] if target.startswith("/") else place[:-1]
            rest.extendleft(reversed(_parts(target)))
    return clean


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
