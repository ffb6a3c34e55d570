# SPDX-License-Identifier: Apache-2.0
"""Which cgroups are chosen and what is written, on recorded mount tables and temporary trees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.bounds import (
    Limits,
    Machine,
    bounds,
    v1_settings,
    v2_settings,
    with_execd,
)
from opensandbox_server.runtimes.oci.launcher.cgroups.cgroups import (
    CgroupsV2,
    find_cgroups,
    hybrid_mount,
)
from opensandbox_server.runtimes.oci.launcher.cgroups.files import (
    CgroupFault,
    change,
    write_in_time,
)
from opensandbox_server.runtimes.oci.launcher.cgroups.v1 import CgroupsV1
from opensandbox_server.runtimes.oci.options import read_options
from opensandbox_server.runtimes.process_tree import processes_naming
from tests.harness.wait import eventually

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
        ("memory.limit_in_bytes", "1048576"),
        ("memory.memsw.limit_in_bytes", "1048576"),
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_quota_us", "150000"),
        ("pids.max", "7"),
    ]
    assert v2_settings(limits) == [
        ("memory.max", "1048576"),
        ("memory.swap.max", "0"),
        ("cpu.max", "150000 100000"),
        ("pids.max", "7"),
    ]


def test_no_limit_is_written_too_for_there_may_have_been_one() -> None:
    assert v1_settings(Limits()) == [
        ("memory.limit_in_bytes", "-1"),
        ("memory.memsw.limit_in_bytes", "-1"),
        ("cpu.cfs_quota_us", "-1"),
        ("pids.max", "max"),
    ]
    assert v2_settings(Limits()) == [
        ("memory.max", "max"),
        ("memory.swap.max", "max"),
        ("cpu.max", "max 100000"),
        ("pids.max", "max"),
    ]


@pytest.mark.parametrize(
    ("after", "is_raised"), [(50, False), (100, False), (200, True), (None, True)]
)
def test_memory_never_has_a_higher_limit_than_memory_and_swap(
    after: int | None, is_raised: bool
) -> None:
    first, second = (name for name, _ in v1_settings(Limits(memory_bytes=after), 100)[:2])
    assert (first.startswith("memory.memsw"), second.startswith("memory.memsw")) == (
        is_raised,
        not is_raised,
    )


GIB = 1 << 30


@pytest.mark.parametrize(
    ("memory", "kept"), [(1 * GIB, GIB // 4), (4 * GIB, GIB), (64 * GIB, 64 * GIB // 10)]
)
def test_the_host_keeps_a_part_of_its_memory_and_half_of_its_processes(
    memory: int, kept: int
) -> None:
    assert bounds(Machine(memory, 32768)) == Limits(memory_bytes=memory - kept, pids=16384)
    assert bounds(Machine(memory, 32768), 5, 7) == Limits(memory_bytes=5, pids=7)


def test_a_sandbox_that_asks_for_nothing_gets_no_more_than_its_share() -> None:
    options = read_options({})
    assert options.defaults(Machine(64 * GIB, 1 << 22)) == Limits(memory_bytes=2 * GIB, pids=4096)
    assert options.defaults(Machine(2 * GIB, 32768)) == Limits(memory_bytes=GIB, pids=2048)
    assert read_options({"default_memory": ""}).defaults(Machine(GIB, 64)).memory_bytes is None


@pytest.mark.parametrize("wrong", [{"all_memory": "much"}, {"default_memory": 5}, {"all_pids": -1}])
def test_a_bound_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=f"oci.{next(iter(wrong))}"):
        read_options(wrong)


def test_execd_has_threads_of_its_own() -> None:
    assert with_execd(Limits(pids=64)).pids == 64 + 256
    assert with_execd(Limits()).pids is None


def test_a_share_too_small_for_the_kernel_becomes_the_smallest() -> None:
    assert ("cpu.cfs_quota_us", "1000") in v1_settings(Limits(cpus=0.001))


@pytest.fixture
def v2(tmp_path: Path) -> CgroupsV2:
    """A tree that looks like a v2 hierarchy with one sandbox."""
    box = tmp_path / "osb" / "box"
    (box / "commands").mkdir(parents=True)
    for directory in (tmp_path, tmp_path / "osb", box):
        (directory / "cgroup.subtree_control").touch()
    for name in ("memory.max", "memory.swap.max", "pids.max", "io.weight"):
        (tmp_path / "osb" / name).touch()
    (tmp_path / "osb" / "memory.current").write_text("8192\n")
    for name in ("cgroup.type", "cgroup.threads", "pids.max"):
        (box / "commands" / name).touch()
    for name in ("cpu.max", "memory.max", "pids.max", "cgroup.freeze", "cgroup.procs"):
        (box / name).touch()
    (box / "memory.current").write_text("8192\n")
    (box / "memory.reclaim").touch()
    (box / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    (box / "memory.events").write_text("low 0\noom 2\noom_kill 2\n")
    return CgroupsV2("osb", tmp_path)


def test_a_v2_cgroup_gets_its_controllers_and_limits(v2: CgroupsV2, tmp_path: Path) -> None:
    v2.open(Limits(memory_bytes=1 << 20, pids=900))
    limits = Limits(cpus=2, memory_bytes=4096, pids=5)
    v2.make("box", limits)
    v2.divide("box", limits)
    box, commands = tmp_path / "osb" / "box", tmp_path / "osb" / "box" / "commands"
    assert (box / "cpu.max").read_text() == "200000 100000"
    assert (box / "pids.max").read_text() == "261"
    assert (box / "cgroup.subtree_control").read_text() == "+pids"
    assert (commands / "cgroup.type").read_text() == "threaded"
    assert (commands / "pids.max").read_text() == "5"
    assert v2.memory_kills("box") == 2


def test_a_v2_cgroup_in_use_gets_other_limits(v2: CgroupsV2, tmp_path: Path) -> None:
    box = tmp_path / "osb" / "box"
    v2.make("box", Limits(cpus=2, memory_bytes=1 << 20, pids=5))
    v2.change("box", Limits(memory_bytes=8192, pids=9))
    assert (box / "memory.max").read_text() == "8192"
    assert (box / "cpu.max").read_text().startswith("max 100000")  # a file keeps its length
    assert (box / "pids.max").read_text() == str(9 + 256)
    assert (box / "commands" / "pids.max").read_text() == "9"
    assert (box / "memory.reclaim").read_text() == ""


def test_v2_kills_nobody_for_a_lower_limit(v2: CgroupsV2, tmp_path: Path) -> None:
    box = tmp_path / "osb" / "box"
    v2.make("box", Limits(cpus=2, memory_bytes=1 << 20, pids=5))
    with pytest.raises(CgroupFault, match="4096 bytes are in use"):
        v2.change("box", Limits(cpus=1, memory_bytes=4096, pids=5))
    assert (box / "memory.reclaim").read_text() == "4096"
    assert (box / "memory.max").read_text() == str(1 << 20)
    assert (box / "cpu.max").read_text() == "200000 100000"


def test_when_one_limit_is_refused_all_are_as_before(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("1\n")
    second.write_text("2\n")
    with pytest.raises(FileNotFoundError):
        change([(first, "3"), (second, "4"), (tmp_path / "missing", "5")], is_lowered=False)
    assert (first.read_text(), second.read_text()) == ("1\n", "2\n")


def test_a_kernel_that_does_not_come_to_an_end_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "memory.max")  # nobody reads it, so who writes waits
    with pytest.raises(CgroupFault, match="in time"):
        write_in_time(tmp_path / "memory.max", "1", 0.2)


def test_a_writer_ends_in_time_also_when_its_launcher_was_killed(tmp_path: Path) -> None:
    fifo = tmp_path / "memory.max"
    os.mkfifo(fifo)
    module = write_in_time.__module__
    code = f"import pathlib, {module} as m; m.write_in_time(pathlib.Path({str(fifo)!r}), '1', 2)"
    launcher = subprocess.Popen([sys.executable, "-c", code])
    eventually(lambda: processes_naming(str(fifo)) != [launcher.pid])
    launcher.kill()
    launcher.wait()
    eventually(lambda: not processes_naming(str(fifo)))


def test_memory_is_given_last_so_that_nothing_can_be_refused_after_it(tmp_path: Path) -> None:
    memory, pids = tmp_path / "memory.max", tmp_path / "pids.max"
    memory.write_text("1\n")
    pids.symlink_to("/proc/self/oom_score_adj")  # which takes no such value
    with pytest.raises(CgroupFault, match=r"the kernel refuses pids\.max of 5000"):
        change([(memory, "2"), (pids, "5000")], is_lowered=False)
    assert memory.read_text() == "1\n"


def test_all_v2_sandboxes_together_have_bounds(v2: CgroupsV2, tmp_path: Path) -> None:
    v2.open(Limits(memory_bytes=1 << 20, pids=900))
    assert (tmp_path / "osb" / "memory.max").read_text() == "1048576"
    assert (tmp_path / "osb" / "memory.swap.max").read_text() == "0"
    assert (tmp_path / "osb" / "pids.max").read_text() == "900"


def test_a_bound_below_what_is_used_kills_nobody(v2: CgroupsV2, tmp_path: Path) -> None:
    v2.open(Limits(memory_bytes=4096))
    assert (tmp_path / "osb" / "memory.max").read_text() == "8192"


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
