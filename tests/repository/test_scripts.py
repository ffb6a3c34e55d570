# SPDX-License-Identifier: Apache-2.0
"""The quickstart and the benchmarks run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


def test_the_quickstart_shows_every_step_and_leaves_nothing(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "quickstart.py")],
        env={"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    for outcome in (
        "hello from",
        "exit code 3",
        "332833500",
        "hello again",
        "line 1, line 2, line 3",
    ):
        assert outcome in finished.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_benchmarks_write_what_they_promise(tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--quick", "--output"]
    finished = subprocess.run(
        [*command, str(output)], capture_output=True, text=True, timeout=110, check=False
    )
    assert finished.returncode == 0, finished.stderr
    results = json.loads(output.read_text())
    assert [result["name"] for result in results] == [
        "exec_vs_spawn",
        "shell_vs_spawn",
        "upload_vs_cat",
        "download_vs_cat",
        "execd_start",
        "execd_idle_rss",
    ]
    for result in results:
        assert set(result) == {"name", "ours", "other", "ratio", "unit", "samples"}
        assert result["ratio"] == pytest.approx(result["ours"] / result["other"], rel=1e-2)
        assert len(result["samples"]["ours"]) == len(result["samples"]["other"]) >= 2
        assert result["name"] in finished.stdout
