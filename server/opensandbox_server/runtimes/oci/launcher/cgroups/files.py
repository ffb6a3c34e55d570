# SPDX-License-Identifier: Apache-2.0
"""Reading and writing the files of cgroups."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

REMOVE_SECONDS = 5.0
"""How long the kernel may take to forget the last process of a cgroup."""
_POLL_SECONDS = 0.0005
"""Neither freezing nor emptying a v1 cgroup announces itself."""

_OPTIONAL = ("memory.swap.max", "memory.memsw.limit_in_bytes", "io.weight", "blkio.bfq.weight")
"""Missing on a host that does not account swap, or whose disks have no such scheduler."""


class CgroupFault(Exception):
    """The kernel did not do what was asked of a cgroup."""


def write(file: Path, value: str) -> None:
    """Write a value. Raises CgroupFault when the kernel does not take it."""
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


def processes(directory: Path) -> list[int]:
    """List the processes of one cgroup; none when it is gone."""
    with contextlib.suppress(FileNotFoundError):
        return [int(line) for line in (directory / "cgroup.procs").read_text().split()]
    return []


def counter(file: Path, name: str) -> int:
    """Read one line of a file of names and numbers; 0 when it is not there."""
    with contextlib.suppress(FileNotFoundError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def remove(directory: Path) -> None:
    """Remove a cgroup; repeats safely. Raises CgroupFault when processes stay in it."""

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

    wait_until(is_gone, REMOVE_SECONDS)


def wait_until(is_true: Callable[[], bool], seconds: float) -> None:
    """Ask again and again. Raises CgroupFault at the end of the time."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise CgroupFault("the kernel did not finish in time; a process may be stuck in I/O")
        time.sleep(_POLL_SECONDS)
