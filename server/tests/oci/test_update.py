# SPDX-License-Identifier: Apache-2.0
"""Limits that are changed while a sandbox runs: they hold, and nobody is ended for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import Change, Resources, UpdateFailed
from opensandbox_server.runtimes.oci.launcher.cgroups.cgroups import CgroupsV2, find_cgroups
from opensandbox_server.runtimes.oci.launcher.cgroups.files import LOWER_SECONDS
from opensandbox_server.runtimes.oci.runtime import cgroup_parent
from tests.harness.runtime import Box, Home, missing, opened_home, own_network
from tests.harness.wait import PATIENCE

MIB = 1 << 20
MEMORY = f"x = bytearray({160 * MIB}); print(len(x))"
FORKS = """
import os, time
made = 0
try:
    for _ in range(100):
        if os.fork() == 0:
            os.closerange(0, 3)
            time.sleep(300)
            os._exit(0)
        made += 1
except BlockingIOError:
    pass
print(made)
"""
HOLD = f"""
import time
x = b"1" * {160 * MIB}
open("/tmp/held", "w").close()
time.sleep(3600)
"""
READ_ON = """
import os
for _ in range(4):
    if os.fork() == 0:
        break
buffer = bytearray(1 << 20)
while True:
    with open("/tmp/large", "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One runtime for all tests here."""
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")
    with own_network(), opened_home(tmp_path_factory.mktemp("home")) as opened:
        yield opened


@pytest.fixture
def home(shared: Home) -> Iterator[Home]:
    """The same, with no sandbox of another test."""
    yield shared
    shared.stop_all()


def update(home: Home, box: Box, **limits: float) -> None:
    wanted = Resources(**limits)  # type: ignore[arg-type]  # whole numbers are among them
    home.run(home.runtime.update(box.id, Change(wanted)))


def kernel(home: Home, box: Box) -> dict[str, str]:
    """Read the limits of a sandbox where they hold, and that of the part without execd."""
    parent = cgroup_parent(home.data_dir.resolve())
    cgroups = find_cgroups(parent, Path("/proc/self/mountinfo").read_text())
    names = ["memory.max", "memory.swap.max", "cpu.max", "pids.max"]
    if not isinstance(cgroups, CgroupsV2):
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        names += ["cpu.cfs_quota_us", "pids.max"]
    paths = cgroups.paths(box.id)
    found = {}
    for name in names:
        file = paths.get("unified", paths.get(name.partition(".")[0], Path())) / name
        if file.exists():
            found[name.partition("_")[0]] = file.read_text().strip()
    found["commands"] = (cgroups.entrance(box.id).parent / "pids.max").read_text().strip()
    return found


def sh_in_background(box: Box, program: str, until: str) -> None:
    box.sh(f"cat > /tmp/program <<'END'\n{program}\nEND")
    box.sh("setsid python3 /tmp/program > /dev/null 2>&1 &")
    assert box.sh(f"until {until}; do sleep 0.05; done").status == 0


def test_the_kernel_is_told_of_the_new_limits(home: Home) -> None:
    box = home.start(resources=Resources(cpus=1, memory_bytes=128 * MIB, pids=50))
    before = kernel(home, box)
    assert before["commands"] == "50"
    update(home, box, cpus=0.5, memory_bytes=256 * MIB, pids=70)
    raised = kernel(home, box)
    assert raised["commands"] == "70"
    assert raised["pids.max"] == str(70 + 256)
    assert str(256 * MIB) in raised.values()
    assert str(128 * MIB) not in raised.values()
    assert {value.split()[0] for name, value in raised.items() if "cpu" in name} == {"50000"}
    update(home, box, cpus=1, memory_bytes=128 * MIB, pids=50)
    assert kernel(home, box) == before
    update(home, box, memory_bytes=128 * MIB, pids=50)
    lifted = kernel(home, box)
    assert {value.split()[0] for name, value in lifted.items() if "cpu" in name} <= {"-1", "max"}


def test_a_limit_that_was_raised_or_lowered_holds(home: Home) -> None:
    box = home.start(resources=Resources(memory_bytes=96 * MIB, pids=40))
    assert box.python(MEMORY).status == 137
    update(home, box, memory_bytes=320 * MIB, pids=200)
    assert box.python(MEMORY).output == str(160 * MIB)
    assert box.python(FORKS).output == "100"
    box.stop_processes()
    box.sh("until [ $(ls -d /proc/[0-9]* | wc -l) -lt 20 ]; do sleep 0.05; done")  # they are gone
    update(home, box, memory_bytes=96 * MIB, pids=40)
    lowered = box.python(MEMORY)
    assert lowered.status == 137, lowered
    assert int(box.python(FORKS).output) < 40
    assert box.metrics()  # execd has threads of its own


def test_memory_that_is_in_use_is_not_taken_away(home: Home) -> None:
    box = home.start(resources=Resources(cpus=1, memory_bytes=320 * MIB))
    sh_in_background(box, HOLD, "[ -e /tmp/held ]")
    before = kernel(home, box)
    with pytest.raises(UpdateFailed) as refused:
        update(home, box, cpus=0.5, memory_bytes=96 * MIB)
    assert "/sys/" not in str(refused.value)  # nobody is told of paths of the host
    assert kernel(home, box) == before
    (seen,) = home.run(home.runtime.instances())
    assert (seen.limits.cpus, seen.limits.memory_bytes) == (1, 320 * MIB)
    assert box.sh("pgrep -f /tmp/program").status == 0


def test_what_was_only_read_is_forgotten_for_a_lower_limit(home: Home) -> None:
    box = home.start(resources=Resources(memory_bytes=320 * MIB))
    box.sh("head -c 200M /dev/zero > /tmp/large; sync /tmp/large; cat /tmp/large > /dev/null")
    update(home, box, memory_bytes=96 * MIB)
    assert str(96 * MIB) in kernel(home, box).values()


def test_a_sandbox_that_uses_ever_more_memory_holds_nobody_up(home: Home) -> None:
    box = home.start(resources=Resources(memory_bytes=320 * MIB))
    box.sh("truncate -s 20G /tmp/large")  # has no blocks, so that it is read as fast as can be
    sh_in_background(box, READ_ON, "pgrep -f /tmp/program")
    for lower in (200, 150, 100):
        began = time.monotonic()
        try:
            update(home, box, memory_bytes=lower * MIB)
        except UpdateFailed:
            assert str(lower * MIB) not in kernel(home, box).values()
        assert time.monotonic() - began < LOWER_SECONDS + PATIENCE / 10
    assert box.metrics()
