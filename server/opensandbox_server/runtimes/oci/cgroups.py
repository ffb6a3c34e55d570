# SPDX-License-Identifier: Apache-2.0
"""Limits and the freezer, on cgroup v1, hybrid and v2."""

from __future__ import annotations

import abc
import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CPU_PERIOD_US = 100_000
FREEZE_SECONDS = 5.0
"""How long every process of a sandbox may take to stop; a task in the middle of I/O delays it."""
REMOVE_SECONDS = 5.0
"""How long the kernel may take to forget the last process of a cgroup."""
_POLL_SECONDS = 0.0005
"""Neither freezing nor emptying a v1 cgroup announces itself."""

_OPTIONAL = ("memory.swap.max",)
"""Missing on a host without swap."""

CONTROLLERS = ("cpu", "memory", "pids", "freezer", "devices")
SHOWN = ("memory", "cpu", "cpuacct")
"""What a sandbox may read of itself on v1: limits and use; cpuacct is not on every host."""
VIEW = "/sys/fs/cgroup"
"""Where a sandbox finds them."""

DEVICES: tuple[tuple[str, int, int | None, str], ...] = (
    ("c", 1, 3, "rwm"),  # null
    ("c", 1, 5, "rwm"),  # zero
    ("c", 1, 7, "rwm"),  # full
    ("c", 1, 8, "rwm"),  # random
    ("c", 1, 9, "rwm"),  # urandom
    ("c", 5, 0, "rwm"),  # tty
    ("c", 5, 2, "rwm"),  # ptmx
    ("c", 136, None, "rwm"),  # pseudo terminals
)
"""The device nodes a sandbox may use: kind, major, minor, access."""


class CgroupFault(Exception):
    """The kernel did not do what was asked of a cgroup."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use; None is no limit."""

    cpus: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None


class Cgroups(abc.ABC):
    """The cgroups of all sandboxes of one server, below one parent."""

    is_entered_by_us: bool
    """True when the launching thread enters the cgroup itself and the OCI runtime must not."""

    def __init__(self, parent: str) -> None:
        """Keep everything below parent, a path relative to the root of the hierarchy."""
        self.parent = parent

    @abc.abstractmethod
    def paths(self, name: str) -> Mapping[str, Path]:
        """Return the directory of each controller."""

    @abc.abstractmethod
    def views(self, name: str) -> Mapping[str, Path]:
        """Return the directories a sandbox is shown of itself, by where it is to find them."""

    @abc.abstractmethod
    def make(self, name: str, limits: Limits) -> None:
        """Make the cgroup with its limits."""

    @abc.abstractmethod
    def enter(self, name: str) -> None:
        """Put the calling thread, and so what it starts from now on, into the cgroup."""

    @abc.abstractmethod
    def freeze(self, name: str) -> None:
        """Stop every process; true when it returns."""

    @abc.abstractmethod
    def thaw(self, name: str) -> None:
        """Let every process go on."""

    @abc.abstractmethod
    def is_frozen(self, name: str) -> bool:
        """Say whether the processes are stopped."""

    @abc.abstractmethod
    def memory_kills(self, name: str) -> int:
        """Count the processes that died because the memory limit was reached."""

    def path(self, name: str) -> str:
        """Return the path of a sandbox's cgroup relative to the root of a hierarchy."""
        return f"{self.parent}/{name}"

    def processes(self, name: str) -> list[int]:
        """List the processes in the cgroup, wherever one still is.

        Without our own: a thread that entered to start something is there until the kernel has
        taken it apart, which is a moment after it was joined.
        """
        found: set[int] = set()
        for directory in self.paths(name).values():
            found.update(_processes(directory))
        return sorted(found - {os.getpid()})

    def kill(self, name: str) -> None:
        """Kill what is left. A frozen v1 process dies when it is thawed."""
        for pid in self.processes(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError, CgroupFault):
            self.thaw(name)

    def remove(self, name: str) -> None:
        """Remove the cgroup; repeats safely."""
        for directory in self.paths(name).values():
            _remove(directory)

    def close(self) -> None:
        """Remove the parent when nothing is left in it."""
        for directory in self.paths("").values():
            with contextlib.suppress(OSError):
                directory.rmdir()


class CgroupsV1(Cgroups):
    """Several hierarchies, one or more controllers in each."""

    is_entered_by_us = True

    def __init__(self, parent: str, mounts: Mapping[str, Path]) -> None:
        """Take the mount point of every controller there is."""
        super().__init__(parent)
        missing = [name for name in CONTROLLERS if name not in mounts]
        if missing:
            raise CgroupFault(f"the cgroup controllers {', '.join(missing)} are not mounted")
        self._mounts = dict(mounts)
        self._used = _one_per_hierarchy(self._mounts, (*CONTROLLERS, *SHOWN))

    def paths(self, name: str) -> Mapping[str, Path]:
        """Return the directory of each controller, also of those only an OCI runtime uses."""
        return {kind: mount / self.parent / name for kind, mount in self._mounts.items()}

    def views(self, name: str) -> Mapping[str, Path]:
        """Return one directory for each hierarchy that limits or counts."""
        paths = self.paths(name)
        return {f"{VIEW}/{kind}": paths[kind] for kind in _one_per_hierarchy(self._mounts, SHOWN)}

    def make(self, name: str, limits: Limits) -> None:
        """Make one directory per hierarchy; devices that are not listed are denied."""
        paths = self.paths(name)
        for kind in self._used:
            paths[kind].mkdir(parents=True, exist_ok=True)
        for file, value in v1_settings(limits):
            controller = file.partition(".")[0]
            _write(paths[controller] / file, value)
        _write(paths["devices"] / "devices.deny", "a")
        for kind, major, minor, access in DEVICES:
            entry = f"{kind} {major}:{'*' if minor is None else minor} {access}"
            _write(paths["devices"] / "devices.allow", entry)

    def enter(self, name: str) -> None:
        """Write 0 to `tasks`: moving a single thread needs no wait for a grace period."""
        paths = self.paths(name)
        for kind in self._used:
            _write(paths[kind] / "tasks", "0")

    def freeze(self, name: str) -> None:
        """Freeze and wait until the kernel says so."""
        state = self.paths(name)["freezer"] / "freezer.state"
        _write(state, "FROZEN")
        try:
            _wait_until(lambda: state.read_text().strip() == "FROZEN", FREEZE_SECONDS)
        except CgroupFault:
            _write(state, "THAWED")
            raise

    def thaw(self, name: str) -> None:
        """Thaw and wait until the kernel says so."""
        state = self.paths(name)["freezer"] / "freezer.state"
        _write(state, "THAWED")
        _wait_until(lambda: state.read_text().strip() == "THAWED", FREEZE_SECONDS)

    def is_frozen(self, name: str) -> bool:
        """Read the state; FREEZING counts as frozen."""
        state = self.paths(name)["freezer"] / "freezer.state"
        with contextlib.suppress(FileNotFoundError):
            return state.read_text().strip() != "THAWED"
        return False

    def memory_kills(self, name: str) -> int:
        """Read the count from `memory.oom_control`."""
        return _counter(self.paths(name)["memory"] / "memory.oom_control", "oom_kill")


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

    def make(self, name: str, limits: Limits) -> None:
        """Make the directory with its limits; the OCI runtime adds the device rules."""
        (self._root / self.parent).mkdir(exist_ok=True)
        for directory in (self._root, self._root / self.parent):
            _write(directory / "cgroup.subtree_control", "+cpu +memory +pids")
        directory = self._directory(name)
        directory.mkdir(exist_ok=True)
        for file, value in v2_settings(limits):
            _write(directory / file, value)

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
        return _counter(self._directory(name) / "memory.events", "oom_kill")

    def kill(self, name: str) -> None:
        """Kill the whole cgroup at once, where the kernel can."""
        with contextlib.suppress(OSError):
            _write(self._directory(name) / "cgroup.kill", "1")
            return
        super().kill(name)

    def _directory(self, name: str) -> Path:
        return self.paths(name)["unified"]

    def _set_frozen(self, name: str, wanted: str) -> None:
        _write(self._directory(name) / "cgroup.freeze", wanted)
        events = self._directory(name) / "cgroup.events"
        _wait_until(lambda: f"frozen {wanted}" in events.read_text().splitlines(), FREEZE_SECONDS)


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
        return CgroupsV1(
            parent, {name: where for name, where in v1.items() if _is_controller(name)}
        )
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


def v1_settings(limits: Limits) -> list[tuple[str, str]]:
    """Translate limits into file names and values of cgroup v1, in the order to write them."""
    settings = []
    if limits.cpus is not None:
        settings.append(("cpu.cfs_period_us", str(CPU_PERIOD_US)))
        settings.append(("cpu.cfs_quota_us", str(_quota(limits.cpus))))
    if limits.memory_bytes is not None:
        settings.append(("memory.limit_in_bytes", str(limits.memory_bytes)))
    if limits.pids is not None:
        settings.append(("pids.max", str(limits.pids)))
    return settings


def v2_settings(limits: Limits) -> list[tuple[str, str]]:
    """Translate limits into file names and values of cgroup v2."""
    settings = []
    if limits.cpus is not None:
        settings.append(("cpu.max", f"{_quota(limits.cpus)} {CPU_PERIOD_US}"))
    if limits.memory_bytes is not None:
        settings.append(("memory.max", str(limits.memory_bytes)))
        settings.append(("memory.swap.max", "0"))
    if limits.pids is not None:
        settings.append(("pids.max", str(limits.pids)))
    return settings


def _quota(cpus: float) -> int:
    # The kernel refuses less than a millisecond.
    return max(1000, int(cpus * CPU_PERIOD_US))


def _one_per_hierarchy(mounts: Mapping[str, Path], kinds: Sequence[str]) -> list[str]:
    """Return those of the controllers that are here, without a second one at the same place."""
    firsts: dict[Path, str] = {}
    for kind in kinds:
        if kind in mounts:
            firsts.setdefault(mounts[kind], kind)
    return list(firsts.values())


def _is_controller(option: str) -> bool:
    """Tell controllers and named trees from the other options of a cgroup mount."""
    if option in {"noprefix", "clone_children", "seclabel", "xattr"}:
        return False
    return option.startswith("name=") or "=" not in option


def _write(file: Path, value: str) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        if file.name in _OPTIONAL:
            return
        raise
    try:
        os.write(descriptor, value.encode())
    except OSError as error:
        raise CgroupFault(f"write {value} to {file}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _processes(directory: Path) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(line) for line in (directory / "cgroup.procs").read_text().split()]
    return []


def _counter(file: Path, name: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def _remove(directory: Path) -> None:
    def is_gone() -> bool:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    _wait_until(is_gone, REMOVE_SECONDS)


def _wait_until(is_true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise CgroupFault("the kernel did not finish in time; a process may be stuck in I/O")
        time.sleep(_POLL_SECONDS)
