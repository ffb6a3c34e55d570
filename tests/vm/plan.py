# SPDX-License-Identifier: Apache-2.0
"""What is run in a virtual machine, and what came of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.vm.agent import CUT_OFF, NOT_STARTED
from tests.vm.machine import Machine

PYTEST = "PATIENCE=600 .venv/bin/python -m pytest -q -p no:cacheprovider --tb=short -o timeout=900"
"""Everything takes many times as long as on the processor itself, so each test may, too."""
_COUNTS = re.compile(r"(\d+) (passed|failed|error|skipped|xfailed)")
_TOLD_LINES = 60


@dataclass(frozen=True)
class Part:
    """One thing to run: a command, and how long it may take."""

    name: str
    command: str
    minutes: float
    is_short: bool = False
    """Part of the short form, too."""


@dataclass(frozen=True)
class Result:
    """What came of a part."""

    part: Part
    status: int
    counts: dict[str, int]

    @property
    def is_good(self) -> bool:
        """Whether it did what it should."""
        return self.status == 0

    def __str__(self) -> str:
        """Say it in one line."""
        names = ("passed", "failed", "error", "skipped", "xfailed")
        told = ", ".join(f"{self.counts[name]} {name}" for name in names if self.counts.get(name))
        if self.status == CUT_OFF:
            return f"{told + ', ' if told else ''}cut off after {self.part.minutes:g} minutes"
        if self.status == NOT_STARTED:
            return "could not be started"
        return told or ("1 passed" if self.is_good else "1 failed")


def pytest(name: str, files: str, minutes: float, *, is_short: bool = False) -> Part:
    """Return a part that runs tests of this clone in the machine."""
    return Part(name, f"{PYTEST} {files}", minutes, is_short)


SERVER = ".venv/bin/opensandbox-server"
PARTS = (
    Part("doctor", f"{SERVER} doctor", 15, is_short=True),
    Part("quickstart", ".venv/bin/python scripts/quickstart.py", 30, is_short=True),
    pytest("limits", "tests/vm/inside/kernel.py", 40, is_short=True),
    pytest("unit of systemd", "tests/vm/inside/unit.py", 40),
    pytest("embedded runtime", "server/tests/oci server/tests/runtimes", 120),
    pytest("security", "tests/security", 90),
    pytest("exhaustion", "tests/vm/inside/exhaustion.py", 60),
)


def run_part(part: Part, machine: Machine, log: Path) -> Result:
    """Run one part; what it says goes to a file."""
    with log.open("w") as file:
        status = machine.run(part.command, part.minutes * 60, file)
    return Result(part, status, counts_in(log.read_text(), status))


def counts_in(output: str, status: int) -> dict[str, int]:
    """Read how many tests passed from the last line that says so; a plain command is one test."""
    for line in reversed(output.splitlines()):
        if found := _COUNTS.findall(line):
            return {name: int(number) for number, name in found}
    return {"passed": 1} if status == 0 else {"failed": 1}


def last_lines(log: Path) -> str:
    """Return the end of what a part said."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TOLD_LINES:])
