# SPDX-License-Identifier: Apache-2.0
"""Bombs, kept small: each first goes off in a sandbox without the limit."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import Resources
from opensandbox_server.runtimes.oci.launcher.rlimits import OPEN_FILES
from tests.harness.runtime import Box, Home, opened_home

FORKS = """
import os, sys, time
made = 0
try:
    for _ in range(300):
        if os.fork() == 0:
            os.closerange(0, 3)
            time.sleep(300)
            os._exit(0)
        made += 1
except BlockingIOError:
    pass
print(made)
"""
MEMORY = "x = bytearray(256 * 1024 * 1024); print(len(x))"
MANY_SMALL = """
import os, time
for _ in range(120):
    if os.fork() == 0:
        x = b"1" * (3 << 20)
        time.sleep(20)
        os._exit(0)
"""
TERMINALS = """
import os
made = []
try:
    for _ in range(300):
        made += os.openpty()
except OSError:
    pass
print(len(made) // 2)
"""
ALL_TOGETHER = {"all_pids": 200, "all_memory": "384Mi", "default_memory": ""}
"""Small bounds for all sandboxes of a runtime, in place of what this machine has."""


@pytest.fixture(scope="module")
def small(network: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A runtime whose sandboxes together have little."""
    assert network >= 0
    with opened_home(tmp_path_factory.mktemp("small"), ALL_TOGETHER) as opened:
        yield opened


@pytest.fixture
def others(small: Home) -> Iterator[Home]:
    """The same, with no sandbox left over from another test."""
    yield small
    small.stop_all()


def test_a_fork_bomb_stops_at_the_limit(home: Home) -> None:
    assert home.start().python(FORKS).output == "300"
    box = home.start(resources=Resources(pids=64))
    assert int(box.python(FORKS).output) < 64


def test_a_sandbox_that_asks_for_no_limit_gets_one(home: Home) -> None:
    endless = FORKS.replace("range(300)", "range(5000)")
    assert 300 < int(home.start().python(endless).output) < 4096


def test_execd_answers_and_says_why_when_its_sandbox_is_full_of_processes(home: Home) -> None:
    box = home.start(resources=Resources(pids=64))
    box.sh("echo kept > /tmp/kept")
    box.python(FORKS)
    answers = _at_once(box, 30, "sleep 2")  # beside each other also on a machine that is slow
    assert any("limit (pids)" in answer for answer in answers)
    assert box.metrics()
    box.stop_processes()
    assert box.sh("cat /tmp/kept").output == "kept"


def test_full_sandboxes_leave_execd_of_others_and_the_host_their_threads(others: Home) -> None:
    quiet = others.start()
    quiet.sh("echo kept > /tmp/kept")
    quiet.sh("until [ $(ls /proc/1/task | wc -l) -gt 24 ]; do sleep 0.05; done")
    bomb = others.start(resources=Resources(pids=4096))
    assert int(bomb.python(FORKS).output) < 200
    assert len(_at_once(quiet, 30)) == 30
    assert quiet.metrics()
    assert os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1] == 0
    bomb.stop()
    assert quiet.sh("cat /tmp/kept").output == "kept"
    assert others.start().sh("echo alive").output == "alive"


def test_a_sandbox_that_has_just_begun_lives_while_another_takes_all_threads(others: Home) -> None:
    bomb, young = others.start(resources=Resources(pids=4096)), others.start()
    assert int(bomb.python(FORKS).output) < 200
    time.sleep(1.5)  # what execd does in its first moments is over by then
    assert young.metrics()
    assert bomb.metrics()


def test_a_memory_bomb_ends_itself_and_not_the_sandbox(home: Home) -> None:
    assert home.start().python(MEMORY).output == str(256 * 1024 * 1024)
    box = home.start(resources=Resources(memory_bytes=96 * 1024 * 1024))
    assert box.python(MEMORY).status == 137
    assert box.sh("echo alive").output == "alive"


def test_many_small_processes_end_before_execd_does(home: Home) -> None:
    box = home.start(resources=Resources(memory_bytes=96 * 1024 * 1024))
    box.sh("echo kept > /tmp/kept")
    with contextlib.suppress(OSError):  # the shell that tells its end may be one of those that go
        box.python(MANY_SMALL)
    box.stop_processes()
    assert box.sh("cat /tmp/kept").output == "kept"


def test_all_sandboxes_together_have_a_bound_of_memory(others: Home) -> None:
    quiet, bomb = others.start(), others.start()
    assert quiet.metrics()["mem_total_mib"] > 384  # no limit of its own
    more = MEMORY.replace("256", "512")
    assert bomb.python(more).status == 137
    for box in (quiet, bomb):
        assert box.sh("echo alive").output == "alive"


def test_the_kernel_ends_commands_before_execd_and_both_before_the_host(home: Home) -> None:
    box = home.start()
    own = int(Path("/proc/self/oom_score_adj").read_text())
    both = "/proc/1/oom_score_adj /proc/self/oom_score_adj"
    # execd has the higher number itself for the moment in which it makes a process.
    settled = f"set -- $(cat {both}); [ $1 -lt $2 ]"
    told = box.sh(f"until {settled}; do sleep 0.01; done; cat {both}", timeout=30)
    execd, command = map(int, told.output.split())
    assert own < execd < command


def test_swap_is_no_way_around_the_memory_limit(home: Home) -> None:
    box = home.start(resources=Resources(memory_bytes=96 * 1024 * 1024))
    v1 = box.sh("cat /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
    v2 = box.sh("cat /sys/fs/cgroup/memory.swap.max")
    if v1.status and v2.status:
        pytest.skip("this kernel does not count swap")
    assert (v1.output, v2.output)[v1.status != 0] == ("0" if v1.status else str(96 * 1024 * 1024))


def test_journals_cannot_fill_the_memory(home: Home) -> None:
    fill = "head -c 100M /dev/zero > /run/opensandbox/fill; rm /run/opensandbox/fill"
    assert home.start().sh(fill).output == ""
    box = home.start(resources=Resources(memory_bytes=96 * 1024 * 1024))
    assert "No space left on device" in box.sh(fill).output
    assert box.sh("echo alive").output == "alive"


def test_files_in_memory_cannot_take_all_of_it(home: Home) -> None:
    box = home.start(resources=Resources(memory_bytes=96 * 1024 * 1024))
    for place in ("/dev/shm", "/dev", "/run/opensandbox"):
        assert "No space left on device" in box.sh(f"head -c 100M /dev/zero > {place}/fill").output
    assert box.sh("echo alive").output == "alive"


def test_no_process_may_leave_a_core_file(home: Home) -> None:
    assert home.start().sh("ulimit -Hc").output == "0"


def test_one_sandbox_cannot_take_all_terminals(home: Home) -> None:
    assert int(home.start().python(TERMINALS).output) <= 256


def test_a_sandbox_cannot_make_the_host_write_everything(home: Home) -> None:
    call = "import ctypes; c = ctypes.CDLL(None); print(c.syncfs(-1), c.sync())"
    assert home.start(without=("seccomp",)).python(call).output.startswith("-1 ")
    assert home.start().python(call).output.startswith("0 ")  # answered without looking
    assert home.start().sh("echo x > /tmp/x; sync /tmp/x; sync; echo $?").output == "0"


def test_what_the_operator_s_shell_allows_is_not_what_a_sandbox_may(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    shell = {resource.RLIMIT_STACK: 1 << 20, resource.RLIMIT_FSIZE: 1 << 30}
    with _soft_limits(shell), opened_home(tmp_path) as home:
        box = home.start()
        soft, hard = _limits(box, "S"), _limits(box, "H")
    assert (soft["s"], soft["f"]) == ("8192", "unlimited")
    assert int(hard["n"]) <= OPEN_FILES
    assert int(hard["i"]) <= 16384
    assert int(hard["l"]) <= 8192
    assert (hard["c"], hard["r"], hard["q"]) == ("0", "0", "819200")


def _limits(box: Box, which: str) -> dict[str, str]:
    """Return the limits of a shell in a sandbox, by the letters of `ulimit`."""
    kinds = "cfilnqrs"
    told = box.sh("; ".join(f"ulimit -{which}{kind}" for kind in kinds)).output.split()
    return dict(zip(kinds, told, strict=True))


@contextlib.contextmanager
def _soft_limits(wanted: dict[int, int]) -> Iterator[None]:
    """Have other limits in this process, as an operator's shell might."""
    before = {kind: resource.getrlimit(kind) for kind in wanted}
    for kind, soft in wanted.items():
        resource.setrlimit(kind, (soft, before[kind][1]))
    try:
        yield
    finally:
        for kind, limits in before.items():
            resource.setrlimit(kind, limits)


def _at_once(box: Box, count: int, command: str = "true") -> list[str]:
    """Run commands beside each other; return what each was answered."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: box.answer(command), range(count)))
