# SPDX-License-Identifier: Apache-2.0
"""The published interpreter client, unmodified, runs the same cells in every language."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.harness.execd import Daemon
from tests.harness.lifecycle import run_standin
from tests.published.environment import published_python

CELLS = Path(__file__).resolve().parent / "published_cells.py"
FAILURES = {
    "python": "NameError",
    "bash": "CommandExecError",
    "javascript": "ReferenceError",
    "typescript": "ReferenceError",
    "java": "CompilationError",
    "go": "CompilationError",
}


@pytest.mark.parametrize("language", FAILURES)
def test_the_published_client_runs_cells(daemon: Daemon, language: str) -> None:
    with run_standin(api_key="", execd={"endpoint": daemon.address}) as standin:
        finished = subprocess.run(
            [str(published_python()), str(CELLS), standin.domain, language],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert finished.returncode == 0, finished.stderr
    reports = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [one["error"] for one in reports] == [None, None, None, FAILURES[language]]
    assert [one["is_complete"] for one in reports] == [True, True, True, False]
    assert reports[2]["out"] == "grüße\n"
    if language == "bash":
        assert reports[1]["out"] == "42\n"
    else:
        assert reports[1]["result"] == ["42"]
        assert reports[2]["result"] == ["20"]
