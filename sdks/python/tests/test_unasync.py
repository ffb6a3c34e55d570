# SPDX-License-Identifier: Apache-2.0
"""The sync half is exactly what its source gives, and the script that says so can say no."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def check(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the check of the tree at ``root``."""
    command = [sys.executable, str(root / "scripts" / "unasync.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of what the script works on."""
    for tree in ("sdks", "tests/interpreter"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / tree, tmp_path / tree, ignore=ignored)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "unasync.py", tmp_path / "scripts")
    return tmp_path


def test_the_sync_half_is_up_to_date() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stderr


def test_a_change_on_one_side_is_noticed(copy: Path) -> None:
    assert check(copy).returncode == 0
    derived = copy / "sdks" / "python" / "opensandbox" / "_sync" / "files.py"
    derived.write_text(derived.read_text() + "\n")
    done = check(copy)
    assert done.returncode == 1
    assert "_sync/files.py differs" in done.stderr


def test_a_file_without_source_is_noticed(copy: Path) -> None:
    (copy / "sdks" / "python" / "opensandbox" / "_sync" / "stray.py").write_text("")
    done = check(copy)
    assert done.returncode == 1
    assert "stray.py has no source" in done.stderr


def test_an_entry_nobody_needs_is_noticed(copy: Path) -> None:
    script = copy / "scripts" / "unasync.py"
    script.write_text(script.read_text().replace("TABLE = {", 'TABLE = {\n    "unheard": "of",'))
    done = check(copy)
    assert done.returncode == 1
    assert "'unheard' of the table is not used" in done.stderr
