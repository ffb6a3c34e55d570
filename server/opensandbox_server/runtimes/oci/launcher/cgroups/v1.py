# SPDX-License-Identifier: Apache-2.0
"""Limits and the freezer on cgroup v1 and hybrid hosts."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from opensandbox_server.runtimes.oci.bounds import Limits, v1_settings, with_execd
from opensandbox_server.runtimes.oci.launcher.cgroups.files import (
    CgroupFault,
    change,
    counter,
    wait_until,
    write,
)
from opensandbox_server.runtimes.oci.launcher.cgroups.tree import (
    COMMANDS,
    DEVICES,
    FREEZE_SECONDS,
    HALF_WEIGHT,
    VIEW,
    Cgroups,
    at_least,
)

CONTROLLERS = ("cpu", "memory", "pids", "freezer", "devices")
LEAVE_SECONDS = 2.0
"""How long the end of a launcher waits for its own children to be gone from the trees it leaves."""
SHOWN = ("memory", "cpu", "cpuacct")
"""What a sandbox may read of itself: limits and use; cpuacct is not on every host."""


class CgroupsV1(Cgroups):
    """Several hierarchies, one or more controllers in each."""

    is_entered_by_us = True

    def __init__(
        self, parent: str, mounts: Mapping[str, Path], unified: Path | None = None
    ) -> None:
        """Take the mount point of every controller there is, and of the v2 tree of a hybrid."""
        super().__init__(parent)
        missing = [name for name in CONTROLLERS if name not in mounts]
        if missing:
            raise CgroupFault(f"the cgroup controllers {', '.join(missing)} are not mounted")
        self._mounts = dict(mounts)
        self._used = _one_per_hierarchy(self._mounts, (*CONTROLLERS, *SHOWN))
        self._unified = unified
        self._followed: list[int] = []

    def paths(self, name: str) -> Mapping[str, Path]:
        """Return the directory of each controller, also of those only an OCI runtime uses."""
        return {kind: mount / self.parent / name for kind, mount in self._mounts.items()}

    def views(self, name: str) -> Mapping[str, Path]:
        """Return one directory for each hierarchy that limits or counts."""
        paths = self.paths(name)
        return {f"{VIEW}/{kind}": paths[kind] for kind in _one_per_hierarchy(self._mounts, SHOWN)}

    def open(self, bounds: Limits) -> None:
        """Make one directory per hierarchy, and take this process into those nobody uses."""
        paths = self.paths("")
        for kind in self._used:
            paths[kind].mkdir(exist_ok=True)
        used = int((paths["memory"] / "memory.usage_in_bytes").read_text())
        for file, value in self._files("", at_least(bounds, used), _memory_limit(paths)):
            write(file, value)
        self._follow()
        if "blkio" in paths:
            write(paths["blkio"] / "blkio.bfq.weight", HALF_WEIGHT)

    def make(self, name: str, limits: Limits) -> None:
        """Make one directory per hierarchy; devices that are not listed are denied."""
        paths = self.paths(name)
        for kind in self._used:
            paths[kind].mkdir(exist_ok=True)
        commands = self.entrance(name).parent
        commands.mkdir(exist_ok=True)
        for file, value in self._files(name, limits):
            write(file, value)
        write(paths["devices"] / "devices.deny", "a")
        for kind, major, minor, access in DEVICES:
            entry = f"{kind} {major}:{'*' if minor is None else minor} {access}"
            write(paths["devices"] / "devices.allow", entry)

    def change(self, name: str, limits: Limits) -> None:
        """Write what is different; the kernel refuses a limit that it cannot get memory below."""
        before = _memory_limit(self.paths(name))
        is_lowered = limits.memory_bytes is not None and limits.memory_bytes < before
        change(self._files(name, limits, before), is_lowered=is_lowered)

    def divide(self, name: str, limits: Limits) -> None:
        """Do nothing: threads are moved one by one in any part."""

    def entrance(self, name: str) -> Path:
        """Return the file of the one hierarchy that counts processes."""
        return self.paths(name)["pids"] / COMMANDS / "tasks"

    def enter(self, name: str) -> None:
        """Write 0 to `tasks`: moving a single thread needs no wait for a grace period."""
        paths = self.paths(name)
        for kind in self._used:
            write(paths[kind] / "tasks", "0")

    def freeze(self, name: str) -> None:
        """Freeze and wait until the kernel says so."""
        state = self.paths(name)["freezer"] / "freezer.state"
        write(state, "FROZEN")
        try:
            wait_until(lambda: state.read_text().strip() == "FROZEN", FREEZE_SECONDS)
        except CgroupFault:
            write(state, "THAWED")
            raise

    def thaw(self, name: str) -> None:
        """Thaw and wait until the kernel says so."""
        state = self.paths(name)["freezer"] / "freezer.state"
        write(state, "THAWED")
        wait_until(lambda: state.read_text().strip() == "THAWED", FREEZE_SECONDS)

    def is_frozen(self, name: str) -> bool:
        """Read the state; FREEZING counts as frozen."""
        state = self.paths(name)["freezer"] / "freezer.state"
        with contextlib.suppress(FileNotFoundError):
            return state.read_text().strip() != "THAWED"
        return False

    def memory_kills(self, name: str) -> int:
        """Read the count from `memory.oom_control`."""
        return counter(self.paths(name)["memory"] / "memory.oom_control", "oom_kill")

    def close(self) -> None:
        """Leave the trees this process followed sandboxes into, and remove what is empty."""
        for root in self._followed:
            with contextlib.suppress(OSError, CgroupFault):
                _enter_whole("cgroup.procs", root)
                # A child of ours that removes files may be there for a moment.
                wait_until(functools.partial(self._is_left, root), LEAVE_SECONDS)
            os.close(root)
        self._followed.clear()
        super().close()

    def _follow(self) -> None:
        """Enter the parent in every other tree, as a whole: what is started is there from birth.

        A service manager ends what it finds in the tree of a service, and sandboxes outlive ours.
        """
        others = {where for kind, where in self._mounts.items() if _is_followed(kind)}
        others -= {self._mounts[kind] for kind in self._used}
        for mount in sorted(others | ({self._unified} if self._unified else set())):
            # By descriptor: one of these is hidden from this process later.
            root = os.open(mount, os.O_DIRECTORY | os.O_CLOEXEC)
            self._followed.append(root)
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.parent, dir_fd=root)
            _enter_whole(f"{self.parent}/cgroup.procs", root)

    def _is_left(self, root: int) -> bool:
        try:
            os.rmdir(self.parent, dir_fd=root)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    def _files(
        self, name: str, limits: Limits, memory_before: int | None = None
    ) -> list[tuple[Path, str]]:
        """Return where what is written: of all sandboxes, or of one and of the part in it."""
        paths = self.paths(name)
        settings = v1_settings(with_execd(limits) if name else limits, memory_before)
        files = [(paths[file.partition(".")[0]] / file, value) for file, value in settings]
        if name:
            pids = dict(v1_settings(limits))["pids.max"]
            files.append((self.entrance(name).parent / "pids.max", pids))
        return files


def _memory_limit(paths: Mapping[str, Path]) -> int:
    return int((paths["memory"] / "memory.limit_in_bytes").read_text())


def _one_per_hierarchy(mounts: Mapping[str, Path], kinds: Sequence[str]) -> list[str]:
    """Return those of the controllers that are here, without a second one at the same place."""
    firsts: dict[Path, str] = {}
    for kind in kinds:
        if kind in mounts:
            firsts.setdefault(mounts[kind], kind)
    return list(firsts.values())


def _is_followed(kind: str) -> bool:
    """Say whether sandboxes get a cgroup of their own in a tree in which none is limited."""
    return kind == "blkio" or kind.startswith("name=")


def _enter_whole(file: str, root: int) -> None:
    """Put the calling process into a cgroup below root."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC, dir_fd=root)
    try:
        os.write(descriptor, b"0")
    finally:
        os.close(descriptor)
