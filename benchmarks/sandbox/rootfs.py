# SPDX-License-Identifier: Apache-2.0
"""The root file system both sides run: a minimal Debian, made once and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox"
RECIPE = ("mmdebstrap", "--quiet", "--variant=minbase")
DEFAULT_SUITE = "bookworm"  # where the machine itself is no Debian


class Unavailable(Exception):
    """Something a benchmark needs is not here; the message says what."""


def base_rootfs(*, may_make: bool) -> Path:
    """Return the archive; makes it when it is missing and that is wanted. Raises Unavailable."""
    suite = _suite()
    key = hashlib.sha256(" ".join((*RECIPE, suite, platform.machine())).encode()).hexdigest()[:16]
    archive = CACHE / "rootfs" / f"{suite}-{key}.tar"
    if archive.exists():
        return archive
    if not may_make:
        raise Unavailable("no root file system in the cache; a run without --quick makes it")
    if shutil.which(RECIPE[0]) is None:
        raise Unavailable("mmdebstrap is missing; apt-get install -y mmdebstrap")
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(f".{os.getpid()}.tar")
    try:
        made = subprocess.run(
            [*RECIPE, suite, str(fresh)], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise Unavailable(f"mmdebstrap: {_last_line(made.stderr)}")
        fresh.replace(archive)
    finally:
        fresh.unlink(missing_ok=True)
    return archive


def _suite() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    about = dict(line.split("=", 1) for line in lines if "=" in line)
    if about.get("ID") != "debian":
        return DEFAULT_SUITE
    return about.get("VERSION_CODENAME", DEFAULT_SUITE).strip('"')


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it failed and said nothing"])[-1]
