# SPDX-License-Identifier: Apache-2.0
"""Which cgroups are chosen and what is written, on recorded mount tables and temporary trees."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.cgroups import (
    CgroupFault,
    CgroupsV1,
    CgroupsV2,
    Limits,
    find_cgroups,
    hybrid_mount,
    v1_settings,
    v2_settings,
)

V2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "".join(
    f"3{n} 23 0:2{n} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
    for n, name in enumerate(
        ("cpu,cpuacct", "memory", "pids", "freezer", "devices", "name=systemd")
    )
)
HYBRID = V1 + "40 23 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


def test_each_kind_of_host_is_recognised() -> None:
    assert isinstance(find_cgroups("osb", V2), CgroupsV2)
    assert isinstance(find_cgroups("osb", V1), CgroupsV1)
    assert isinstance(find_cgroups("osb", HYBRID), CgroupsV1)
    assert hybrid_mount(HYBRID) == "/sys/fs/cgroup/unified"
    assert hybrid_mount(V2) is None
    with pytest.raises(CgroupFault, match="no cgroup"):
        find_cgroups("osb", "22 1 0:20 / /proc rw - proc proc rw\n")


def test_controllers_mounted_together_share_a_directory() -> None:
    paths = find_cgroups("osb", V1).paths("box")
    assert paths["cpu"] == Path("/sys/fs/cgroup/cpu,cpuacct/osb/box")
    assert paths["name=systemd"] == Path("/sys/fs/cgroup/name=systemd/osb/box")


def test_a_sandbox_is_shown_each_of_its_hierarchies_once() -> None:
    together = find_cgroups("osb", V1).views("box")
    assert together == {
        "/sys/fs/cgroup/memory": Path("/sys/fs/cgroup/memory/osb/box"),
        "/sys/fs/cgroup/cpu": Path("/sys/fs/cgroup/cpu,cpuacct/osb/box"),
    }
    apart = V1.replace("cpu,cpuacct", "cpu") + (
        "39 23 0:39 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
    )
    assert find_cgroups("osb", apart).views("box") == {
        f"/sys/fs/cgroup/{name}": Path(f"/sys/fs/cgroup/{name}/osb/box")
        for name in ("memory", "cpu", "cpuacct")
    }
    assert find_cgroups("osb", V2).views("box") == {
        "/sys/fs/cgroup": Path("/sys/fs/cgroup/osb/box")
    }


def test_limits_become_files() -> None:
    limits = Limits(cpus=1.5, memory_bytes=1 << 20, pids=7)
    assert v1_settings(limits) == [
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_quota_us", "150000"),
        ("memory.limit_in_bytes", "1048576"),
        ("pids.max", "7"),
    ]
    assert v2_settings(limits) == [
        ("cpu.max", "150000 100000"),
        ("memory.max", "1048576"),
        ("memory.swap.max", "0"),
        ("pids.max", "7"),
    ]
    assert v1_settings(Limits()) == v2_settings(Limits()) == []


def test_a_share_too_small_for_the_kernel_becomes_the_smallest() -> None:
    assert ("cpu.cfs_quota_us", "1000") in v1_settings(Limits(cpus=0.001))


@pytest.fixture
def v2(tmp_path: Path) -> CgroupsV2:
    """A tree that looks like a v2 hierarchy with one sandbox."""
    box = tmp_path / "osb" / "box"
    box.mkdir(parents=True)
    for directory in (tmp_path, tmp_path / "osb"):
        (directory / "cgroup.subtree_control").touch()
    for name in ("cpu.max", "memory.max", "pids.max", "cgroup.freeze", "cgroup.procs"):
        (box / name).touch()
    (box / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    (box / "memory.events").write_text("low 0\noom 2\noom_kill 2\n")
    return CgroupsV2("osb", tmp_path)


def test_a_v2_cgroup_gets_its_controllers_and_limits(v2: CgroupsV2, tmp_path: Path) -> None:
    v2.make("box", Limits(cpus=2, memory_bytes=4096, pids=5))
    assert (tmp_path / "osb" / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (tmp_path / "osb" / "box" / "cpu.max").read_text() == "200000 100000"
    assert (tmp_path / "osb" / "box" / "pids.max").read_text() == "5"
    assert v2.memory_kills("box") == 2


def test_freezing_waits_until_the_kernel_says_so(v2: CgroupsV2, tmp_path: Path) -> None:
    events = tmp_path / "osb" / "box" / "cgroup.events"
    freezing = threading.Thread(target=v2.freeze, args=("box",))
    freezing.start()
    freezing.join(0.1)
    assert freezing.is_alive()
    events.write_text("populated 1\nfrozen 1\n")
    freezing.join(5)
    assert not freezing.is_alive()
    assert v2.is_frozen("box")


def test_a_thread_of_ours_in_a_cgroup_does_not_get_us_killed(v2: CgroupsV2, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        listed = tmp_path / "osb" / "box" / "cgroup.procs"
        listed.write_text(f"{os.getpid()}\n{other.pid}\n")
        v2.kill("box")
        assert other.wait(10) == -signal.SIGKILL


def test_what_is_not_there_is_removed_already(v2: CgroupsV2) -> None:
    v2.remove("never-made")
    v2.kill("never-made")
    assert not v2.is_frozen("never-made")
