# SPDX-License-Identifier: Apache-2.0
"""The machine is what users have, and the kernel keeps to what a sandbox was given."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import Instance, InstanceState, Resources
from opensandbox_server.runtimes.oci.runtime import cgroup_parent
from tests.harness.runtime import Box, Home, opened_home
from tests.harness.wait import eventually

MEMORY = "x = bytearray(256 << 20); print(len(x))"
HUNGRY = """
import os, time
while not os.path.exists("/tmp/go"):
    time.sleep(0.1)
x = bytearray(1 << 30)
"""
COUNT = "i=0; while :; do i=$((i+1)); echo $i >/tmp/count; done"
FORKS = """
import os, time
made = 0
try:
    for _ in range(100):
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        made += 1
except BlockingIOError:
    pass
print(made)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A runtime on the machine's own network."""
    with opened_home(tmp_path_factory.mktemp("home")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _stop_sandboxes(home: Home) -> Iterator[None]:
    yield
    home.stop_all()


def cgroup(box: Box, home: Home) -> Path:
    record = json.loads((home.data_dir / "sandboxes" / box.id / "state.json").read_text())
    return Path("/sys/fs/cgroup", cgroup_parent(home.data_dir.resolve()), record["cgroup"])


def value(directory: Path, file: str, name: str) -> int:
    words = dict(line.split() for line in (directory / file).read_text().splitlines())
    return int(words[name])


def test_the_machine_has_systemd_and_cgroups_of_version_2_alone() -> None:
    assert Path("/proc/1/comm").read_text() == "systemd\n"
    mounts = Path("/proc/self/mountinfo").read_text()
    assert " - cgroup2 " in mounts
    assert " - cgroup cgroup" not in mounts


def test_sandboxes_run_where_apparmor_is_on(home: Home) -> None:
    assert Path("/sys/module/apparmor/parameters/enabled").read_text() == "Y\n"
    box = home.start()
    assert box.sh("cat /proc/self/attr/current").output == "unconfined"
    change = "echo changeprofile docker-default >/proc/self/attr/current"
    assert box.sh(change).status != 0


def test_the_kernel_is_given_the_limits_of_a_sandbox(home: Home) -> None:
    box = home.start(resources=Resources(cpus=0.5, memory_bytes=128 << 20, pids=77))
    directory = cgroup(box, home)
    assert (directory / "cpu.max").read_text() == "50000 100000\n"
    assert (directory / "memory.max").read_text() == f"{128 << 20}\n"
    assert int((directory / "pids.max").read_text()) >= 77
    assert (directory / "cgroup.procs").read_text().split()


def test_memory_ends_a_process_and_is_counted(home: Home) -> None:
    box = home.start(resources=Resources(memory_bytes=96 << 20))
    assert box.python(MEMORY).status == 137
    assert value(cgroup(box, home), "memory.events", "oom_kill") >= 1
    assert box.sh("echo alive").output == "alive"


def test_memory_of_the_first_process_ends_the_sandbox_for_that_reason(home: Home) -> None:
    hungry = ("python3", "-c", HUNGRY)
    box = home.start(entrypoint=hungry, resources=Resources(memory_bytes=96 << 20))
    box.sh("touch /tmp/go")

    def instance() -> Instance:
        return home.run(home.runtime.inspect(box.id)).instance

    eventually(lambda: instance().state is InstanceState.EXITED)
    assert instance().reason == "it ran out of memory"


def test_a_fork_bomb_stops_at_the_limit(home: Home) -> None:
    box = home.start(resources=Resources(pids=50))
    assert int(box.python(FORKS).output) < 50


def test_a_share_of_the_processors_is_not_passed(home: Home) -> None:
    box = home.start(resources=Resources(cpus=0.2))
    box.sh("timeout 10 sh -c 'while :; do :; done'")
    assert value(cgroup(box, home), "cpu.stat", "nr_throttled") > 0


def test_a_paused_sandbox_does_nothing_until_it_goes_on(home: Home) -> None:
    box = home.start()
    box.sh(f"setsid sh -c {COUNT!r} >/dev/null 2>&1 & until [ -s /tmp/count ]; do sleep 0.1; done")
    upper = next((home.data_dir / "sandboxes" / box.id).rglob("tmp/count"))
    home.run(home.runtime.pause(box.id))
    assert value(cgroup(box, home), "cgroup.events", "frozen") == 1
    seen = upper.read_text()
    time.sleep(2)
    assert upper.read_text() == seen
    home.run(home.runtime.resume(box.id))
    eventually(lambda: upper.read_text() != seen)


def test_files_of_a_sandbox_belong_to_ids_of_its_own_on_the_host(home: Home) -> None:
    boxes = [home.start(), home.start()]
    owners = []
    for box in boxes:
        assert box.sh("touch /tmp/mine; stat -c %u /tmp/mine").output == "0"
        file = next((home.data_dir / "sandboxes" / box.id).rglob("tmp/mine"))
        owners.append(file.stat().st_uid)
    assert len(set(owners)) == 2
    assert min(owners) >= 65536
