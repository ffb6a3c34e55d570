# SPDX-License-Identifier: Apache-2.0
"""Rules for every source file."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 600
FORBIDDEN_NAMES = {
    "utils",
    "helpers",
    "common",
    "services",
    "adapters",
    "converter",
    "factory",
    "pkg",
}


def sources() -> list[Path]:
    """Return what git tracks or would track: code, scripts, specifications."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / line for line in listed.stdout.splitlines()]
    return [path for path in paths if path.is_file()]


def code() -> list[Path]:
    """Return source files: by their ending, or by the interpreter they name."""
    return [
        path
        for path in sources()
        if path.suffix in {".go", ".py", ".sh"}
        or (not path.suffix and path.read_bytes().startswith(b"#!"))
        or path.name in {"Makefile", "pyproject.toml"}
    ]


def relative(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_every_source_has_one_licence_line_at_its_top() -> None:
    def has_line(path: Path) -> bool:
        top = path.read_text().splitlines()[:2]
        return any("SPDX-License-Identifier: Apache-2.0" in line for line in top)

    assert relative([path for path in code() if not has_line(path)]) == []


def test_no_source_is_too_long() -> None:
    assert relative([p for p in code() if len(p.read_text().splitlines()) > MOST_LINES]) == []


def test_no_file_or_folder_is_named_for_nothing() -> None:
    named = [p for p in sources() if FORBIDDEN_NAMES & {part.split(".")[0] for part in p.parts}]
    assert relative(named) == []


def test_no_lock_file_with_addresses_is_tracked() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "uv.lock"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert tracked.stdout == ""


def test_direct_dependencies_have_exact_versions() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    entries = re.findall(r'^    "([^"]+)",$', text.split("[tool.ruff]")[0], re.MULTILINE)
    assert len(entries) > 30
    assert [entry for entry in entries if not re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+", entry)] == []
