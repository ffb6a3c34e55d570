# SPDX-License-Identifier: Apache-2.0
"""What is remembered of each sandbox on disk, so that another launcher can find it again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1
"""Of the form of records; one without a number has the first."""
RECORD = "state.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}|\.ahead-[0-9]+")
_PARTS = {
    "upper",
    "work",
    "output",
    "log",
    "log.1",
    "log.new",
    "log.position",
    "log.position.new",
    f"{RECORD}.new",
}
"""What is in the directory of a sandbox besides its record."""
_NOT_LOOKED_AT = {"lost+found", ".trash"}


class NotUnderstood(Exception):
    """Something that this version cannot read, and therefore leaves as it is."""

    def __init__(self, why: str, *, is_sandbox: bool = True) -> None:
        """Say why; what is no sandbox has no owner who may ask for it."""
        super().__init__(why)
        self.is_sandbox = is_sandbox


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
    limits: dict[str, Any] = field(default_factory=dict)
    """Of Limits; nothing in what 0.1.0 wrote."""
    others: dict[str, Any] = field(default_factory=dict)
    """What a newer version wrote beside these."""

    def is_alive(self) -> bool:
        """Say whether its first process still runs, and is no other with the same number."""
        if not self.pid or self.has_ended or self.boot != boot_id():
            return False
        return start_ticks(self.pid) == self.start_ticks


_KINDS: dict[str, Any] = {
    **dict.fromkeys(("id", "image", "socket", "runner", "cgroup", "boot", "reason"), str),
    **dict.fromkeys(("slot", "pid", "start_ticks"), int),
    "created": (float, int),
    "has_ended": bool,
    "exit_code": (int, type(None)),
    "limits": dict,
}
_NEEDED = {"id", "image", "slot", "socket", "runner", "created", "cgroup"}


def write_record(directory: Path, record: Record) -> None:
    """Write it whole or not at all."""
    fields = asdict(record)
    others = fields.pop("others")
    fresh = directory / f"{RECORD}.new"
    fresh.write_text(json.dumps({**others, **fields, "version": VERSION}))
    fresh.chmod(0o600)
    fresh.replace(directory / RECORD)


def read_record(text: str) -> Record:
    """Read what write_record of this or another version wrote. Raises NotUnderstood.

    Fields that this version does not know are kept as they are. A version that others must not
    read raises the number.
    """
    try:
        fields = json.loads(text)
        version = fields.pop("version", VERSION)
    except (ValueError, AttributeError, TypeError) as fault:
        raise NotUnderstood(f"its record is damaged: {fault}") from fault
    if not isinstance(version, int) or version > VERSION:
        raise NotUnderstood(f"its record has version {version}, and this server knows {VERSION}")
    known = {name: fields.pop(name) for name in _KINDS if name in fields}
    wrong = [name for name, value in known.items() if not isinstance(value, _KINDS[name])]
    missing = _NEEDED - known.keys()
    if wrong or missing:
        raise NotUnderstood(f"its record has no good {', '.join(sorted({*wrong, *missing}))}")
    return Record(**known, others=fields)


def survey(
    sandboxes: Path, runs: Callable[[str], bool]
) -> Iterator[tuple[Path, Record | NotUnderstood | None]]:
    """Look at everything in the directory of all sandboxes; runs tells what has processes.

    Gives a record for a sandbox, None for what a start that was cut off left and what may go, and
    why it is not understood for everything else.
    """
    for entry in sorted(sandboxes.iterdir()):
        if entry.name in _NOT_LOOKED_AT:
            continue
        try:
            yield entry, _look(entry, runs)
        except NotUnderstood as reason:
            yield entry, reason


def _look(entry: Path, runs: Callable[[str], bool]) -> Record | None:
    if entry.is_symlink() or not entry.is_dir() or not _NAME.fullmatch(entry.name):
        raise NotUnderstood("no server made it", is_sandbox=False)
    try:
        text = (entry / RECORD).read_text()
    except FileNotFoundError:
        if runs(entry.name):
            raise NotUnderstood("it has no record, and something runs in it") from None
        if strange := sorted({child.name for child in entry.iterdir()} - _PARTS):
            reason = f"it has no record, and no server made {strange[0]} in it"
            raise NotUnderstood(reason, is_sandbox=False) from None
        return None
    except (OSError, UnicodeDecodeError) as fault:
        raise NotUnderstood(f"its record cannot be read: {fault}") from fault
    record = read_record(text)
    if record.id != entry.name:
        raise NotUnderstood(f"its record is that of {record.id}", is_sandbox=False)
    return record


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
