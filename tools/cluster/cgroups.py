# SPDX-License-Identifier: Apache-2.0
"""The cluster's own cgroups: made before a kubelet needs them, removed with everything below."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path

from tools.cluster.component import ClusterError

ROOT = Path("/sys/fs/cgroup")
_EMPTY_SECONDS = 10.0
"""Bounds how long the kernel may take to see that killed processes have left a cgroup."""


def make_cgroup(name: str) -> None:
    """Make the cgroup in every hierarchy of the host."""
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(parents=True, exist_ok=True)
        if hierarchy == ROOT:
            _hand_down_controllers(hierarchy / name)


def remove_cgroup(name: str) -> None:
    """Remove the cgroup and those below it in every hierarchy; a missing one is fine."""
    deadline = time.monotonic() + _EMPTY_SECONDS
    for hierarchy in _hierarchies():
        below = [path for path in (hierarchy / name).rglob("*/") if path.is_dir()]
        for cgroup in [*sorted(below, reverse=True), hierarchy / name]:
            _remove_one(cgroup, deadline)


def _hand_down_controllers(cgroup: Path) -> None:
    """Version 2: a cgroup has the controllers that each one above it hands down."""
    for above in reversed(cgroup.relative_to(ROOT).parents):
        controllers = (ROOT / above / "cgroup.controllers").read_text().split()
        wanted = " ".join(f"+{controller}" for controller in controllers)
        (ROOT / above / "cgroup.subtree_control").write_text(wanted)


def _hierarchies() -> Iterator[Path]:
    if (ROOT / "cgroup.controllers").exists():
        yield ROOT
        return
    for path in sorted(ROOT.iterdir()):
        if path.is_dir() and not path.is_symlink() and (path / "cgroup.procs").exists():
            yield path


def _remove_one(cgroup: Path, deadline: float) -> None:
    while True:
        try:
            cgroup.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{cgroup} still has processes; end them and stop again"
                ) from None
            time.sleep(0.05)
