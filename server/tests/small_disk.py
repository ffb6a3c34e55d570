# SPDX-License-Identifier: Apache-2.0
"""A disk that is soon full."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount a file system with little room."""
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "small", str(place)]
    subprocess.run(words, check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@contextlib.contextmanager
def reserving_disk(place: Path, size: str, percent: int) -> Iterator[Path]:
    """Mount a small ext4 that keeps a part of itself for root."""
    image = place.with_suffix(".image")
    subprocess.run(["truncate", "-s", size, str(image)], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-m", str(percent), str(image)], check=True)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
        image.unlink()


@contextlib.contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Leave no room on a disk, for a while."""
    file = disk / "everything.left"
    try:
        with contextlib.suppress(OSError), file.open("wb", buffering=0) as everything:
            while everything.write(bytes(4096)) == 4096:
                pass
        yield
    finally:
        file.unlink()
