# SPDX-License-Identifier: Apache-2.0
"""Places in an image where a sandbox gets something of its own mounted."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from opensandbox_server.runtimes.oci.images.bounds import BadArchive

_DIRECTORIES = ("proc", "sys", "dev", "run", "run/opensandbox", "opt", "opt/opensandbox")
_PACK, _EXECD = "opt/opensandbox/python", "opt/opensandbox/execd"


def check_places(root: Path) -> None:
    """See that no link leads such a mount elsewhere, and nothing is in its way. Raises BadArchive.

    /etc may be anything: a sandbox has a directory of its own over it. Each place is looked at
    after the one above it, so no link is followed.
    """
    for place in (*_DIRECTORIES, _PACK):
        if not _is(root / place, stat.S_ISDIR):
            raise BadArchive(
                f"the image has something else than a directory at /{place}, where sandboxes get "
                "their own; make it without"
            )
    if not _is(root / _EXECD, stat.S_ISREG):
        raise BadArchive(f"the image has something else than a file at /{_EXECD}; make it without")


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(path.lstat().st_mode)
    except FileNotFoundError:
        return True
