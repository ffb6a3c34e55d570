# SPDX-License-Identifier: Apache-2.0
"""Bombs, kept small: each first goes off in a sandbox without the limit."""

from __future__ import annotations

from opensandbox_server.runtimes.base import Resources
from tests.security.harness import Home

FORKS = """
import os, sys, time
made = 0
try:
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except BlockingIOError:
    pass
print(made)
"""
MEMORY = "x = bytearray(256 * 1024 * 1024); print(len(x))"


def test_a_fork_bomb_stops_at_the_limit(home: Home) -> None:
    assert home.start().python(FORKS).output == "300"
    box = home.start(resources=Resources(pids=64))
    assert int(box.python(FORKS).output) < 64


def test_a_sandbox_that_asks_for_no_limit_gets_one(home: Home) -> None:
    endless = FORKS.replace("range(300)", "range(5000)")
    assert 300 < int(home.start().python(endless).output) < 4096


def test_a_memory_bomb_ends_itself_and_not_the_sandbox(home: Home) -> None:
    assert home.start().python(MEMORY).output == str(256 * 1024 * 1024)
    box = home.start(resources=Resources(memory_bytes=96 * 1024 * 1024))
    assert box.python(MEMORY).status == 137
    assert box.sh("echo alive").output == "alive"


def test_journals_cannot_fill_the_memory(home: Home) -> None:
    fill = "head -c 100M /dev/zero > /run/opensandbox/fill; rm /run/opensandbox/fill"
    assert home.start().sh(fill).output == ""
    box = home.start(resources=Resources(memory_bytes=96 * 1024 * 1024))
    assert "No space left on device" in box.sh(fill).output
    assert box.sh("echo alive").output == "alive"


def test_no_process_may_leave_a_core_file(home: Home) -> None:
    assert home.start().sh("ulimit -Hc").output == "0"
