# SPDX-License-Identifier: Apache-2.0
"""The server as a unit of systemd: sandboxes live on when it is restarted, stopped or killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.models.execd import RunCommandOpts
from tests.harness.wait import eventually
from tests.vm.inside.server import running_unit, systemctl, wait_until_healthy

# Renamed into its place, or a reader would find it empty at times.
COUNTING = (
    "i=0; while :; do i=$((i+1)); echo $i >/tmp/next; mv /tmp/next /tmp/count; sleep 0.1; done"
)


@pytest.fixture(scope="module")
def unit() -> Iterator[ConnectionConfigSync]:
    """The server's unit, running."""
    with running_unit() as config:
        yield config


@pytest.fixture
def boxes(unit: ConnectionConfigSync) -> Iterator[tuple[SandboxSync, SandboxSync]]:
    """Two sandboxes, the second of which is paused."""
    with ExitStack() as stack:
        made = []
        for _ in range(2):
            sandbox = SandboxSync.create("host", connection_config=unit)
            stack.callback(sandbox.destroy)
            made.append(sandbox)
        made[0].commands.run(COUNTING, opts=RunCommandOpts(background=True))
        made[1].pause()
        yield made[0], made[1]


def count(sandbox: SandboxSync) -> int:
    return int(sandbox.commands.run("cat /tmp/count || echo 0").text or 0)


def live_on(
    unit: ConnectionConfigSync, boxes: tuple[SandboxSync, SandboxSync], before: int
) -> None:
    running, paused = boxes
    assert count(running) > before
    first = count(running)
    eventually(lambda: count(running) > first, "what ran before the restart does not run any more")
    assert paused.get_info().status.state == "Paused"
    with SandboxSync.resume(paused.id, connection_config=unit) as woken:
        assert woken.commands.run("echo woke").text == "woke"


def start_of_main_process() -> str:
    return systemctl("show", "opensandbox", "--property=MainPID", "--value")


@pytest.mark.parametrize("way", ["restart", "stop and start", "kill"])
def test_sandboxes_live_on_when_the_unit_does_not(
    unit: ConnectionConfigSync, boxes: tuple[SandboxSync, SandboxSync], way: str
) -> None:
    before, main = count(boxes[0]), start_of_main_process()
    if way == "kill":
        systemctl("kill", "--signal=KILL", "--kill-who=main", "opensandbox")
        eventually(lambda: start_of_main_process() not in ("0", main))
    else:
        for verb in way.split(" and "):
            systemctl(verb, "opensandbox")
    assert start_of_main_process() != main
    wait_until_healthy()
    live_on(unit, boxes, before)
    with SandboxSync.create("host", connection_config=unit) as another:
        assert another.commands.run("echo new").text == "new"
        another.destroy()


def test_limits_stay_when_systemd_looks_at_its_units_again(unit: ConnectionConfigSync) -> None:
    limits = {"memory": "128Mi", "cpu": "500m"}
    sandbox = SandboxSync.create("host", resource=limits, connection_config=unit)
    try:
        systemctl("daemon-reload")
        systemctl("daemon-reexec")
        assert sandbox.commands.run("cat /sys/fs/cgroup/memory.max").text == str(128 << 20)
        assert sandbox.commands.run("cat /sys/fs/cgroup/cpu.max").text == "50000 100000"
        assert sandbox.commands.run("cat /sys/fs/cgroup/pids.max").text != "max"
    finally:
        sandbox.destroy()


def test_the_unit_leaves_no_process_behind(unit: ConnectionConfigSync) -> None:
    assert unit
    systemctl("stop", "opensandbox")
    left = Path("/sys/fs/cgroup/system.slice/opensandbox.service/cgroup.procs")
    eventually(lambda: not left.exists() or not left.read_text(), left.read_text)
