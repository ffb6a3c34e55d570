# SPDX-License-Identifier: Apache-2.0
"""The variables an image brings."""

from __future__ import annotations

from collections.abc import Sequence

from opensandbox_server.runtimes.oci.images.bounds import BadArchive

LONGEST = 128 * 1024 - 1
"""Of one variable with its name: the kernel starts no program with a longer one."""
MOST_BYTES = 512 * 1024
"""Of all of them, which leaves as much for a request and for a program's words."""


def read_environment(entries: Sequence[str]) -> dict[str, str]:
    """Read NAME=value entries. Raises BadArchive, which says no value: it may be a secret."""
    found = {}
    for entry in entries:
        name, _, value = entry.partition("=")
        if not name or "\0" in entry or len(entry.encode()) >= LONGEST:
            raise BadArchive(
                f"the image has a variable {name[:100]!r} that no program can have: "
                f"it has no name, a NUL, or {LONGEST} bytes or more"
            )
        found[name] = value
    if sum(len(entry.encode()) + 1 for entry in entries) > MOST_BYTES:
        raise BadArchive(f"the variables of the image have more than {MOST_BYTES} bytes")
    return found
