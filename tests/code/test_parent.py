# SPDX-License-Identifier: Apache-2.0
"""The process that Python contexts are forked from: broken, killed or stopped by code."""

from pathlib import Path

import pytest

from tests.code.cells import Context, forked_context, made
from tests.execd.events import assert_error
from tests.harness.execd import Daemon

FIND_PARENT = """
import os
from pathlib import Path
def is_parent(process):
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()
        program = (process / "cmdline").read_text()
    except OSError:  # it has ended
        return False
    above, group, session = state[1:4]
    is_leader = group == process.name != session
    return above == str(os.getppid()) and is_leader and "first.py" not in program
(parent,) = [int(process.name) for process in Path("/proc").glob("[0-9]*") if is_parent(process)]
"""


def test_a_python_that_cannot_start_is_told_at_once_and_harms_nobody(
    daemon: Daemon, python: Context, tmp_path: Path
) -> None:
    python.run("x = 1")
    broken = {"language": "python", "envs": {"PYTHONHOME": str(tmp_path)}}
    answer = daemon.client.post("/code/context", json=broken, timeout=60)
    assert_error(answer, 500, "RUNTIME_ERROR")
    assert "did not start" in answer.json()["message"]
    assert "encodings" in answer.json()["message"], "Python's own words are missing"
    assert python.value("x") == "1"
    assert made(daemon.client, "python").value("1 + 1") == "2"


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_code_that_ends_or_stops_the_parent_harms_nobody(daemon: Daemon, number: str) -> None:
    with forked_context(daemon) as one:
        one.run("x = 1")
        ended = one.run(f"{FIND_PARENT}\nimport signal; os.kill(parent, signal.{number})")
        assert ended.error is None
        assert made(daemon.client, "python").value("1 + 1") == "2"
        assert one.value("x") == "1"
