# SPDX-License-Identifier: Apache-2.0
"""The benchmarks run, each with few samples: `make packages`."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.run import TARGETS

ROOT = Path(__file__).resolve().parents[2]

# On a fresh machine they compile.
pytestmark = pytest.mark.timeout(600)


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
