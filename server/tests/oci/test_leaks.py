# SPDX-License-Identifier: Apache-2.0
"""Nothing is left of a sandbox, nor of a runtime."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import InstanceState, StartFailed
from opensandbox_server.runtimes.oci.images import Image
from opensandbox_server.runtimes.oci.runtime import cgroup_parent
from server.tests.oci.traces import cgroups_named, traces, wait_for_empty_trash
from tests.harness.runtime import Home, opened_home
from tests.harness.wait import eventually


def add_broken_image(home: Home) -> None:
    """Add an image whose working directory is a file: crun gives up late."""
    host = home.run(home.runtime.images.resolve("host"))

    def fill(root: Path) -> Image:
        shutil.copytree(host.rootfs, root, symlinks=True)
        return replace(host, rootfs=root, cwd="/etc/passwd")

    home.runtime.images.add("broken", fill)


def test_starts_and_stops_leave_processes_mounts_links_cgroups_and_files_as_they_were(
    home: Home,
) -> None:
    add_broken_image(home)
    home.start().stop()
    launcher = home.launcher
    before = traces(home.data_dir, launcher)
    for _ in range(5):
        box = home.start()
        box.sh("sleep 100 > /dev/null 2>&1 & echo x > /tmp/file")
        home.run(home.runtime.pause(box.id))
        box.stop()
        with pytest.raises(StartFailed, match="crun"):
            home.start("broken")
    assert traces(home.data_dir, launcher) == before
    wait_for_empty_trash(home.data_dir)


def test_a_sandbox_that_ended_keeps_only_its_directory(home: Home) -> None:
    launcher = home.launcher
    home.start().stop()
    before = traces(home.data_dir, launcher)
    home.start(entrypoint=["sleep", "0.5"])
    eventually(
        lambda: (
            [each.state for each in home.run(home.runtime.instances())] == [InstanceState.EXITED]
        )
    )
    home.stop_all()
    assert traces(home.data_dir, launcher) == before


def test_a_closed_runtime_leaves_no_bridge_rules_or_cgroups(network: int, tmp_path: Path) -> None:
    assert network >= 0
    with opened_home(tmp_path / "home") as home:
        home.start()
        parent = cgroups_named(cgroup_parent(home.data_dir))[0]
    after = traces(tmp_path / "home", launcher=1)
    assert after["links"] == ["lo"]
    assert after["rules"] == ""
    assert not parent.exists()
    assert list((tmp_path / "home" / "sandboxes").iterdir()) == []


def test_a_runtime_that_is_closed_while_it_deletes_leaves_no_cgroups(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    with opened_home(tmp_path / "home") as home:
        box = home.start()
        box.sh("cd /var && seq 50000 | xargs touch")
        parents = cgroups_named(cgroup_parent(home.data_dir))
        box.stop()
        os.kill(eventually(lambda: _emptying(home.data_dir)), signal.SIGSTOP)
    assert parents
    assert [parent for parent in parents if parent.exists()] == []


def _emptying(data_dir: Path) -> int:
    """Return the number of the process that deletes what was in sandboxes; 0 if there is none."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if str(data_dir / "trash").encode() in words:
                return int(process.name)
    return 0
