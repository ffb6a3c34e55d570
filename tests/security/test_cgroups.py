# SPDX-License-Identifier: Apache-2.0
"""A sandbox sees its own cgroups and no others, and can change none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import Resources
from tests.harness.runtime import Home

LIMITED = Resources(cpus=0.5, memory_bytes=96 << 20)
MOUNTS = "grep -E ' - cgroup2? ' /proc/self/mountinfo"
WRITE_ALL = """
import os, pathlib
for path in pathlib.Path("/sys/fs/cgroup").rglob("*"):
    try:
        if path.is_dir():
            (path / "new").mkdir()
        else:
            os.close(os.open(path, os.O_WRONLY))
    except OSError:
        continue
    print("open", path)
print("done")
"""


def test_metrics_are_those_of_the_sandbox_and_not_of_the_machine(home: Home) -> None:
    seen = home.start(resources=LIMITED).metrics()
    assert seen["mem_total_mib"] == 96
    assert seen["cpu_count"] == 0.5
    assert 0 < seen["mem_used_mib"] < 96


def test_metrics_count_what_the_sandbox_itself_uses(home: Home) -> None:
    idle, busy = home.start(), home.start()
    hold = "x = b'1' * (64 << 20); print('held', flush=True); import time; time.sleep(60)"
    busy.sh(f'python3 -c "{hold}" > /tmp/said 2>&1 & until [ -s /tmp/said ]; do sleep 0.01; done')
    assert busy.metrics()["mem_used_mib"] > 64
    assert idle.metrics()["mem_used_mib"] < 64


def test_a_sandbox_without_limits_sees_the_default_memory_and_all_processors(home: Home) -> None:
    seen = home.start().metrics()
    assert seen["mem_total_mib"] == pytest.approx(min(2048, _machine() / 2), rel=0.01)
    assert seen["cpu_count"] == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("without", [(), ("capabilities", "paths")])
def test_cgroup_files_cannot_be_written(home: Home, without: tuple[str, ...]) -> None:
    box = home.start(resources=LIMITED, without=without)
    for path in _named(box.id):  # what a sandbox sees read-only the host's root may write
        os.close(os.open(f"{path}/cgroup.procs", os.O_WRONLY))
    assert box.python(WRITE_ALL).output == "done"
    limit = box.sh("ls /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max")
    assert "/sys/fs/cgroup/memory" in limit.output
    for line in box.sh(MOUNTS).output.splitlines():
        assert {"ro", "nosuid", "nodev", "noexec"} <= set(line.split()[5].split(","))


def test_cgroups_of_siblings_and_of_the_host_are_invisible(home: Home) -> None:
    sibling, box = home.start(), home.start()
    assert _named(sibling.id)  # on the host they are
    roots = [line.split()[3] for line in box.sh(MOUNTS).output.splitlines()]
    assert roots
    assert set(roots) == {"/"}  # its own is the root of all it can see
    seen = box.sh("find /sys/fs/cgroup; cat /proc/self/mountinfo /proc/self/cgroup").output
    assert sibling.id not in seen
    assert "osb-" not in seen
    listed = box.sh("cat $(find /sys/fs/cgroup -name cgroup.procs)").output.split()
    assert "1" in listed
    assert "0" not in listed  # how a process outside its namespace would be shown


def test_a_stopped_sandbox_leaves_no_cgroup(home: Home) -> None:
    box = home.start(resources=LIMITED)
    assert _named(box.id)
    box.stop()
    assert not _named(box.id)


def _named(name: str) -> list[str]:
    return [where for where, _, _ in os.walk("/sys/fs/cgroup") if where.endswith(f"/{name}")]


def _machine() -> float:
    """Return the memory of this machine, in MiB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def test_a_sandbox_is_in_no_tree_by_which_a_service_manager_ends_services(home: Home) -> None:
    box = home.start()
    (pid, *_) = Path(_named(box.id)[0], "cgroup.procs").read_text().split()
    places = {
        kind: path
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        for _, kind, path in [line.split(":", 2)]
    }
    for kind in {"", "name=systemd"} & set(places):
        assert places[kind].startswith("/osb-"), kind
