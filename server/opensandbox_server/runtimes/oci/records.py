# SPDX-License-Identifier: Apache-2.0
"""What is remembered of each sandbox on disk, so that another launcher can find it again."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = "state.json"


@dataclass(slots=True)
class Record:
    """One sandbox. Without a pid its start never finished."""

    id: str
    image: str
    slot: int
    socket: str
    runner: str
    created: float
    cgroup: str
    pid: int = 0
    start_ticks: int = 0
    boot: str = ""
    has_ended: bool = False
    exit_code: int | None = None
    reason: str = ""

    def is_alive(self) -> bool:
        """Say whether its first process still runs, and is no other with the same number."""
        if not self.pid or self.has_ended or self.boot != boot_id():
            return False
        return start_ticks(self.pid) == self.start_ticks


def write_record(directory: Path, record: Record) -> None:
    """Write it whole or not at all."""
    fresh = directory / f"{_NAME}.new"
    fresh.write_text(json.dumps(asdict(record)))
    fresh.chmod(0o600)
    fresh.replace(directory / _NAME)


def read_records(sandboxes: Path) -> Iterator[tuple[Path, Record | None]]:
    """Read what is there; None for a directory whose record cannot be read."""
    for directory in sorted(sandboxes.iterdir()):
        record = None
        with contextlib.suppress(OSError, ValueError, TypeError):
            record = Record(**json.loads((directory / _NAME).read_text()))
        yield directory, record


def boot_id() -> str:
    """Return what tells this boot of the machine from all others."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int:
    """Return when a process was started, in ticks since boot; 0 when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    fields = stat.rpartition(b")")[2].split()
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def remove_tree(directory: Path) -> None:
    """Remove a directory and everything in it, out of process: there may be very much in it."""
    pid = os.posix_spawn("/bin/rm", ["rm", "-rf", "--one-file-system", "--", str(directory)], {})
    os.waitpid(pid, 0)
