# SPDX-License-Identifier: Apache-2.0
"""Limits and the freezer on cgroup v2, and which kind of cgroups a host has."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from opensandbox_server.runtimes.oci.bounds import Limits, v2_settings, with_execd
from opensandbox_server.runtimes.oci.launcher.cgroups.files import (
    CgroupFault,
    change,
    counter,
    wait_until,
    write,
    write_in_time,
)
from opensandbox_server.runtimes.oci.launcher.cgroups.tree import (
    COMMANDS,
    FREEZE_SECONDS,
    HALF_WEIGHT,
    VIEW,
    Cgroups,
    at_least,
)
from opensandbox_server.runtimes.oci.launcher.cgroups.v1 import CgroupsV1


class CgroupsV2(Cgroups):
    """One hierarchy. The OCI runtime enters it, because a single thread cannot."""

    is_entered_by_us = False

    def __init__(self, parent: str, root: Path) -> None:
        """Take the mount point of the hierarchy."""
        super().__init__(parent)
        self._root = root

    def paths(self, name: str) -> Mapping[str, Path]:
        """Return the one directory."""
        return {"unified": self._root / self.parent / name}

    def views(self, name: str) -> Mapping[str, Path]:
        """Return the one directory."""
        return {VIEW: self._directory(name)}

    def open(self, bounds: Limits) -> None:
        """Make the parent, and hand the controllers down to it and to sandboxes."""
        parent = self._directory("")
        parent.mkdir(exist_ok=True)
        for directory in (self._root, parent):
            write(directory / "cgroup.subtree_control", "+cpu +memory +pids")
            with contextlib.suppress(CgroupFault):  # not every kernel has it
                write(directory / "cgroup.subtree_control", "+io")
        used = int((parent / "memory.current").read_text())
        for file, value in v2_settings(at_least(bounds, used)):
            write(parent / file, value)
        write(parent / "io.weight", HALF_WEIGHT)

    def make(self, name: str, limits: Limits) -> None:
        """Make the directory with its limits; the OCI runtime adds the device rules."""
        directory = self._directory(name)
        directory.mkdir(exist_ok=True)
        for file, value in v2_settings(with_execd(limits)):
            write(directory / file, value)
        self.entrance(name).parent.mkdir(exist_ok=True)

    def change(self, name: str, limits: Limits) -> None:
        """Free memory first: the kernel takes any limit, and kills whoever is above it."""
        directory, memory = self._directory(name), limits.memory_bytes
        before = (directory / "memory.max").read_text().strip()
        is_lowered = memory is not None and (before == "max" or memory < int(before))
        if memory is not None and is_lowered:
            self._free(directory, memory)
        files = [(directory / file, value) for file, value in v2_settings(with_execd(limits))]
        pids = dict(v2_settings(limits))["pids.max"]
        commands = self.entrance(name).parent / "pids.max"
        change([*files, (commands, pids)], is_lowered=is_lowered)

    def divide(self, name: str, limits: Limits) -> None:
        """Make it a threaded part: a single thread of execd, the one that forks, lives there."""
        directory, commands = self._directory(name), self.entrance(name).parent
        write(commands / "cgroup.type", "threaded")
        write(directory / "cgroup.subtree_control", "+pids")
        write(commands / "pids.max", dict(v2_settings(limits))["pids.max"])

    def entrance(self, name: str) -> Path:
        """Return the file that moves single threads."""
        return self._directory(name) / COMMANDS / "cgroup.threads"

    def enter(self, name: str) -> None:
        """Refuse: the OCI runtime is given the path instead."""
        raise NotImplementedError(f"cgroup v2 moves whole processes; {name} is entered by crun")

    def freeze(self, name: str) -> None:
        """Freeze and wait until the kernel says so."""
        self._set_frozen(name, "1")

    def thaw(self, name: str) -> None:
        """Thaw and wait until the kernel says so."""
        self._set_frozen(name, "0")

    def is_frozen(self, name: str) -> bool:
        """Read what is wanted of the processes."""
        with contextlib.suppress(FileNotFoundError):
            return (self._directory(name) / "cgroup.freeze").read_text().strip() == "1"
        return False

    def memory_kills(self, name: str) -> int:
        """Read the count from `memory.events`."""
        return counter(self._directory(name) / "memory.events", "oom_kill")

    def kill(self, name: str) -> None:
        """Kill the whole cgroup at once, where the kernel can."""
        with contextlib.suppress(OSError):
            write(self._directory(name) / "cgroup.kill", "1")
            return
        super().kill(name)

    def _free(self, directory: Path, wanted: int) -> None:
        used = directory / "memory.current"
        if (more := int(used.read_text()) - wanted) > 0:
            with contextlib.suppress(CgroupFault):  # it may have freed some of it, and enough
                write_in_time(directory / "memory.reclaim", str(more))
        if int(used.read_text()) > wanted:
            raise CgroupFault(f"more than {wanted} bytes are in use and cannot be freed")

    def _directory(self, name: str) -> Path:
        return self.paths(name)["unified"]

    def _set_frozen(self, name: str, wanted: str) -> None:
        write(self._directory(name) / "cgroup.freeze", wanted)
        events = self._directory(name) / "cgroup.events"
        wait_until(lambda: f"frozen {wanted}" in events.read_text().splitlines(), FREEZE_SECONDS)


def find_cgroups(parent: str, mountinfo: str) -> Cgroups:
    """Choose by what is mounted. Raises CgroupFault when the host has neither v1 nor v2."""
    v1: dict[str, Path] = {}
    v2: Path | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        where = Path(before.split(" ")[4])
        if kind == "cgroup":
            v1 |= {name: where for name in options.split(",") if not name.startswith(("rw", "ro"))}
        elif kind == "cgroup2" and v2 is None:
            v2 = where
    if "memory" in v1:
        mounts = {name: where for name, where in v1.items() if _is_controller(name)}
        return CgroupsV1(parent, mounts, v2)
    if v2 is not None:
        return CgroupsV2(parent, v2)
    raise CgroupFault("no cgroup file system is mounted; mount one at /sys/fs/cgroup")


def hybrid_mount(mountinfo: str) -> str | None:
    """Return where cgroup2 is mounted beside v1; crun refuses to work while it sees that."""
    kinds: dict[str, str] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kinds.setdefault(after.split(" ")[0], before.split(" ")[4])
    return kinds.get("cgroup2") if "cgroup" in kinds else None


def _is_controller(option: str) -> bool:
    """Tell controllers and named trees from the other options of a cgroup mount."""
    if option in {"noprefix", "clone_children", "seclabel", "xattr"}:
        return False
    return option.startswith("name=") or "=" not in option
