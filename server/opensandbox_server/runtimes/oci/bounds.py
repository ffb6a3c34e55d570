# SPDX-License-Identifier: Apache-2.0
"""What a sandbox may use, what all of them together may, and how cgroups are told. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CPU_PERIOD_US = 100_000
EXECD_TASKS = 256
"""Threads of execd that come on top of a sandbox's limit: a full sandbox must still answer."""
SHARE_OF_ALL = 8
"""At least so many sandboxes must be full before no other starts a process or a connection."""
_LEAST_RESERVE = 1024**3
"""Debian and the server take half of it; less for what it reads makes every program crawl."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use, or all together; None is no limit."""

    cpus: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """What the kernel has once."""

    memory_bytes: int
    pids: int

    @classmethod
    def ours(cls, proc: Path = Path("/proc/sys/kernel")) -> Machine:
        """Ask the kernel."""
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        pids = min(int((proc / name).read_text()) for name in ("pid_max", "threads-max"))
        return cls(memory, pids)


def bounds(machine: Machine, memory: int | None = None, pids: int | None = None) -> Limits:
    """Return what all sandboxes may use; what nobody chose leaves the host enough to live.

    A tenth of the memory, at least 1 GiB but never more than a quarter, and half of the processes
    are kept from sandboxes: ingress, the launcher and whoever wants to end a sandbox need some.
    """
    if memory is None:
        reserve = min(max(_LEAST_RESERVE, machine.memory_bytes // 10), machine.memory_bytes // 4)
        memory = machine.memory_bytes - reserve
    return Limits(memory_bytes=memory, pids=machine.pids // 2 if pids is None else pids)


def default_memory(wanted: int, machine: Machine) -> int:
    """Return the memory of a sandbox that asks for none: what is wanted, at most half of all."""
    return min(wanted, machine.memory_bytes // 2)


def default_pids(wanted: int, of_all: int) -> int:
    """Return the processes of a sandbox that asks for no number: never most of what all have."""
    return max(1, min(wanted, of_all // SHARE_OF_ALL))


def v1_settings(limits: Limits, memory_before: int | None = None) -> list[tuple[str, str]]:
    """Translate limits into file names and values of cgroup v1, in the order to write them.

    At no moment may memory alone have a higher limit than memory and swap together, so the order of
    these two depends on the limit before; None is none, as in a cgroup that is new.
    """
    memory = _or_none(limits.memory_bytes, "-1")
    alone, with_swap = ("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)
    settings = [with_swap, alone] if _is_raised(memory_before, limits) else [alone, with_swap]
    if limits.cpus is not None:
        settings.append(("cpu.cfs_period_us", str(CPU_PERIOD_US)))
    quota = "-1" if limits.cpus is None else str(_quota(limits.cpus))
    return [*settings, ("cpu.cfs_quota_us", quota), ("pids.max", _or_none(limits.pids, "max"))]


def v2_settings(limits: Limits) -> list[tuple[str, str]]:
    """Translate limits into file names and values of cgroup v2."""
    quota = "max" if limits.cpus is None else str(_quota(limits.cpus))
    return [
        ("memory.max", _or_none(limits.memory_bytes, "max")),
        ("memory.swap.max", "max" if limits.memory_bytes is None else "0"),
        ("cpu.max", f"{quota} {CPU_PERIOD_US}"),
        ("pids.max", _or_none(limits.pids, "max")),
    ]


def with_execd(limits: Limits) -> Limits:
    """Return the limits of a whole sandbox, execd included."""
    pids = None if limits.pids is None else limits.pids + EXECD_TASKS
    return Limits(limits.cpus, limits.memory_bytes, pids)


def _quota(cpus: float) -> int:
    # The kernel refuses less than a millisecond.
    return max(1000, int(cpus * CPU_PERIOD_US))


def _or_none(limit: int | None, none: str) -> str:
    return none if limit is None else str(limit)


def _is_raised(before: int | None, limits: Limits) -> bool:
    if before is None:
        return False
    return limits.memory_bytes is None or limits.memory_bytes > before
