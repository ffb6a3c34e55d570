# SPDX-License-Identifier: Apache-2.0
"""The quickstart and the benchmarks run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.run import TARGETS
from tests.e2e.server import obstacle

ROOT = Path(__file__).resolve().parents[2]

# On a fresh machine the quickstart makes the image host and its Python, the benchmarks compile.
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


def test_the_benchmarks_write_what_they_promise(tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--quick", "--output"]
    finished = subprocess.run([*command, str(output)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    results = json.loads(output.read_text())
    left_out = re.findall(r"^(\w+) is left out: .+", finished.stdout, re.MULTILINE)
    assert {*left_out, *(result["name"] for result in results)} == set(TARGETS)
    for result in results:
        assert set(result) == {"name", "ours", "other", "ratio", "unit", "samples"}
        assert result["ratio"] == pytest.approx(result["ours"] / result["other"], rel=1e-2)
        assert len(result["samples"]["ours"]) == len(result["samples"]["other"]) >= 1
        assert result["name"] in finished.stdout
