# SPDX-License-Identifier: Apache-2.0
"""What a process holds, read from /proc."""

from pathlib import Path


def resident_mib(pid: int) -> float:
    """Return the memory the process occupies."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no VmRSS")


def peak_mib(pid: int) -> float:
    """Return the most memory the process has occupied since reset_peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no VmHWM")


def reset_peak(pid: int) -> None:
    """Begin measuring the peak again."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def descriptors(pid: int) -> list[str]:
    """Return what each open descriptor of the process leads to."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return found


def children(pid: int) -> list[int]:
    """Return the children of the process, of all its threads."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found
