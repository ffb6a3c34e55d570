# SPDX-License-Identifier: Apache-2.0
"""Reading and writing the files of cgroups."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

REMOVE_SECONDS = 5.0
"""How long the kernel may take to forget the last process of a cgroup."""
_POLL_SECONDS = 0.0005
"""Neither freezing nor emptying a v1 cgroup announces itself."""

_OPTIONAL = ("memory.swap.max", "memory.memsw.limit_in_bytes", "io.weight", "blkio.bfq.weight")
"""Missing on a host that does not account swap, or whose disks have no such scheduler."""


NO_LIMIT = ("-1", "max")
"""How a value begins that lifts a limit; a kernel without such limits needs no file for that."""
LOWER_SECONDS = 5.0
"""How long the kernel may look for memory to free, while a sandbox may use ever more of it."""
_KILLED = 128 + signal.SIGKILL
_INTO_FILE = 'printf %s "$1" > "$2"'


class CgroupFault(Exception):
    """The kernel did not do what was asked of a cgroup."""


def write(file: Path, value: str) -> None:
    """Write a value. Raises CgroupFault when the kernel does not take it."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        if file.name in _OPTIONAL or value.split()[0] in NO_LIMIT:
            return
        raise
    try:
        os.write(descriptor, value.encode())
    except OSError as error:
        raise CgroupFault(f"the kernel refuses {file.name} of {value}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def change(settings: Sequence[tuple[Path, str]], *, is_lowered: bool) -> None:
    """Write all the values that are others, or none. Raises CgroupFault, with all as before.

    Memory comes last: it would have to be lowered again when another value is refused, and while
    that takes its time the sandbox has it.
    """
    with contextlib.ExitStack() as undo:
        for file, value in sorted(settings, key=lambda each: _is_memory(each[0])):
            before = file.read_text().strip() if file.exists() else None
            if before == value:
                continue
            if is_lowered and _is_memory(file):
                write_in_time(file, value)
            else:
                write(file, value)
            if before is not None:
                undo.callback(write_in_time if _is_memory(file) else write, file, before)
        undo.pop_all()


def _is_memory(file: Path) -> bool:
    return file.name.startswith("memory.")


def write_in_time(file: Path, value: str, seconds: float = LOWER_SECONDS) -> None:
    """Write a value below which a sandbox may have to come first. Raises CgroupFault.

    The kernel frees memory as long as it finds some, which a sandbox can make last for ever, and
    only the end of the process that writes makes it give up: so that is another one. It also ends
    in time when the launcher does not live to see it, and writes nothing late.
    """
    words = ["timeout", "-s", "KILL", str(seconds), "sh", "-c", _INTO_FILE, "sh", value, str(file)]
    done = subprocess.run(words, env={"PATH": os.defpath}, capture_output=True, check=False)
    if done.returncode in (_KILLED, -signal.SIGKILL):
        raise CgroupFault("the kernel did not free enough memory in time")
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().rpartition(": ")[2]
        raise CgroupFault(f"the kernel refuses {file.name} of {value}: {reason}")


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
