# SPDX-License-Identifier: Apache-2.0
"""The quickstart runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.server import obstacle

ROOT = Path(__file__).resolve().parents[2]

# On a fresh machine the quickstart makes the image host and its Python.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.skipif(bool(obstacle("oci")), reason=obstacle("oci"))
def test_the_quickstart_shows_every_step_and_leaves_nothing(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "quickstart.py")],
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    for outcome in (
        "create a sandbox",
        "hello from",
        "workspace",
        "kept",
        "332833500",
        "42 /workspace",
        "no host files",
        "end it",
    ):
        assert outcome in finished.stdout
    assert len(re.findall(r"^  \S.* +\d+\.\d ms", finished.stdout, re.MULTILINE)) > 8
    assert list(tmp_path.iterdir()) == []
