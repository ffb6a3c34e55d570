# SPDX-License-Identifier: Apache-2.0
"""What a sandbox could leave behind, counted."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from pyroute2 import IPRoute  # type: ignore[import-untyped]

from opensandbox_server.runtimes.oci.runtime import cgroup_parent
from tests.harness.wait import eventually


def wait_for_empty_trash(data_dir: Path) -> None:
    """Return when what was deleted is gone from the disk too."""
    eventually(lambda: not list((data_dir / "trash").glob("*")))


def traces(data_dir: Path, launcher: int) -> dict[str, object]:
    """Return everything there is now that a start or a stop may change, but for the trash."""
    with IPRoute() as netlink:
        links = sorted(link.get_attr("IFLA_IFNAME") for link in netlink.get_links())
    return {
        "links": [name for name in links if "v" not in name],
        # An empty cgroup is removed only when no process is left in it.
        "cgroups": [
            str(group)
            for parent in cgroups_named(cgroup_parent(data_dir))
            for group in sorted(parent.glob("*/"))
        ],
        "files": _files(data_dir),
        "mounts": Path(f"/proc/{launcher}/mountinfo").read_text().count("opensandbox"),
        "host mounts": Path("/proc/self/mountinfo").read_text().count("opensandbox"),
        "processes": children(launcher),
        "rules": subprocess.run(
            ["nft", "list", "ruleset"], capture_output=True, text=True, check=True
        ).stdout,
        "own descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


def cgroups_named(name: str) -> list[Path]:
    """Find them wherever they are. Others' cgroups may go while we look."""
    return sorted(Path(top, name) for top, below, _ in os.walk("/sys/fs/cgroup") if name in below)


def children(launcher: int) -> list[str]:
    """List the launcher's children by name; zombies too."""
    found = []
    for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError):
            found.append(Path(f"/proc/{pid}/comm").read_text().strip())
    return sorted(found)


def _files(data_dir: Path) -> list[str]:
    """Return what is in the data directory, but for images, what was made ahead and the trash."""
    found = []
    for where, directories, files in os.walk(data_dir):
        directories[:] = [
            name
            for name in directories
            if name not in {"images", "trash"} and not name.startswith(".ahead-")
        ]
        found += [f"{where}/{name}" for name in (*directories, *files)]
    return sorted(found)
