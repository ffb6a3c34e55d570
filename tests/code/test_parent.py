# SPDX-License-Identifier: Apache-2.0
"""The process that Python contexts are forked from: broken, killed or stopped by code."""

from pathlib import Path

import pytest

from tests.code.cells import Context, made
from tests.daemon import Daemon
from tests.execd.events import assert_error

FIND_PARENT = """
import os
def is_parent(pid):
    stat = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    program = open(f"/proc/{pid}/cmdline").read().rstrip("\\0")
    state, above, group, session = stat[:4]
    return above == str(os.getppid()) and pid != session and program.endswith("runners/python")
(parent,) = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_parent(pid)]
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
    one, _ = made(daemon.client, "python"), made(daemon.client, "python")  # the first has none
    one.run("x = 1")
    assert one.run(f"{FIND_PARENT}\nimport signal; os.kill(parent, signal.{number})").error is None
    assert made(daemon.client, "python").value("1 + 1") == "2"
    assert one.value("x") == "1"
