# SPDX-License-Identifier: Apache-2.0
"""A process with everything below it: found in /proc, signalled as one."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_PROC = Path("/proc")
_PASSES = 16
"""Looks taken until nothing new appears; a tree that still grows then is left as it is."""


def start_time(pid: int) -> int | None:
    """Return when the process started, in ticks since boot; with the pid it names one process."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def processes_naming(text: str) -> list[int]:
    """Find the processes that have text in their command line."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def processes_with(variable: str) -> list[int]:
    """Find the processes that were started with NAME=value, among those we may look into."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if variable.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def signal_tree(root: int, number: signal.Signals) -> None:
    """Send a signal to a process and all its descendants, those that appear meanwhile included."""
    done: set[int] = set()
    for _ in range(_PASSES):
        fresh = _tree(root) - done
        if not fresh:
            return
        for pid in sorted(fresh):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        done |= fresh


def _tree(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = set(), [root]
    while waiting:
        pid = waiting.pop()
        found.add(pid)
        waiting += children.get(pid, [])
    return found


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name, which may contain anything."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
