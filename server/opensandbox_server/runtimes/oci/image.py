# SPDX-License-Identifier: Apache-2.0
"""An image, as a start needs it. Nothing here is imported that the launcher does without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PACK = "/opt/opensandbox/python"
"""Where a sandbox sees the Python pack."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is here."""

    name: str
    rootfs: Path
    env: Mapping[str, str] = field(default_factory=dict)
    entrypoint: Sequence[str] = ()
    cwd: str = "/"
    uid: int = 0
    gid: int = 0
    host_paths: Sequence[str] = ()
    """Directories of the host that it shows, read-only and with the host's ids."""
    pack: str = ""
    """The directory that is shown as the Python pack; empty when the image brings its own."""
    created: float = 0.0
    size_bytes: int = 0
    digest: str = ""
    """Of the files, when it was built here."""

    @property
    def packs(self) -> Mapping[str, str]:
        """Where the sandbox sees a directory of ours, read-only → the directory."""
        return {PACK: self.pack} if self.pack else {}
