# SPDX-License-Identifier: Apache-2.0
"""The table of attacks in docs/security.md, made from tests/security/attacks.toml.

A row names the test that tries the attack, in Python (`path.py::test_name`) or in Go
(`path_test.go::TestName`), so that no row can outlive its test.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "security" / "attacks.toml"


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack, what stops it, and the tests that try it."""

    attack: str
    stopped_by: str
    tests: tuple[str, ...]


def read_attacks() -> dict[str, list[Attack]]:
    """Return the attacks by who attacks, in the order of the file."""
    found: dict[str, list[Attack]] = {}
    for group in tomllib.loads(SOURCE.read_text())["attacker"]:
        rows = [Attack(row[0], row[1], tuple(row[2:])) for row in group["attacks"]]
        found[group["who"]] = rows
    return found


def missing_tests() -> list[str]:
    """Return the tests that are named and are not there."""
    named = {test for rows in read_attacks().values() for row in rows for test in row.tests}
    return sorted(test for test in named if not _exists(test))


def _exists(test: str) -> bool:
    path, _, name = test.partition("::")
    file = ROOT / path
    word = "func" if file.suffix == ".go" else "def"
    return file.is_file() and bool(re.search(rf"\b{word} {name}\(", file.read_text()))


def attacks_table() -> str:
    """Return a table for each attacker."""
    lines: list[str] = []
    for who, rows in read_attacks().items():
        lines += [f"### {who}", "", "| Attack | What stops it | Test |", "|---|---|---|"]
        for row in rows:
            tests = "<br>".join(_link(test) for test in row.tests)
            lines.append(f"| {row.attack} | {row.stopped_by} | {tests} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def _link(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[`{name}`](../{path})"
