# SPDX-License-Identifier: Apache-2.0
"""The cgroups of sandboxes, as every kind of host has them."""

from __future__ import annotations

import abc
import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from opensandbox_server.runtimes.oci.bounds import Limits
from opensandbox_server.runtimes.oci.launcher.cgroups.files import CgroupFault, processes, remove
from opensandbox_server.runtimes.oci.launcher.program import FIRST_FREE_FD

FREEZE_SECONDS = 5.0
"""How long every process of a sandbox may take to stop; a task in the middle of I/O delays it."""
COMMANDS = "commands"
"""The part of a sandbox's cgroup that has all its processes but execd."""
HALF_WEIGHT = "50"
"""For disks, where their scheduler knows weights: 100 is what everybody has."""
VIEW = "/sys/fs/cgroup"
"""Where a sandbox finds its own."""

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
    def open(self, bounds: Limits) -> None:
        """Make the parent, with what all sandboxes together may use.

        Sandboxes may be in it already: nobody is killed by a bound that was lowered.
        """

    @abc.abstractmethod
    def make(self, name: str, limits: Limits) -> None:
        """Make the cgroup with its limits, and in it the part for what execd starts."""

    @abc.abstractmethod
    def change(self, name: str, limits: Limits) -> None:
        """Give a cgroup that is in use other limits. Raises CgroupFault, with all as before.

        Nobody is killed to get below a limit.
        """

    @abc.abstractmethod
    def divide(self, name: str, limits: Limits) -> None:
        """Let single threads be in that part; to be called before anything else is in it."""

    @abc.abstractmethod
    def entrance(self, name: str) -> Path:
        """Return the file by which a thread enters the part for what execd starts."""

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

    @contextlib.contextmanager
    def opened_entrance(self, name: str) -> Iterator[int]:
        """Yield a descriptor for execd: only who opens such a file needs a right to it."""
        opened = os.open(self.entrance(name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            moved = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD)
        finally:
            os.close(opened)
        try:
            yield moved
        finally:
            os.close(moved)

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
            found.update(processes(directory))
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
        remove(self.entrance(name).parent)
        for directory in self.paths(name).values():
            remove(directory)

    def close(self) -> None:
        """Remove the parent when nothing is left in it."""
        for directory in self.paths("").values():
            with contextlib.suppress(OSError):
                directory.rmdir()


def at_least(bounds: Limits, used: int) -> Limits:
    """Raise the memory to what is in use."""
    memory = None if bounds.memory_bytes is None else max(bounds.memory_bytes, used)
    return replace(bounds, memory_bytes=memory)
