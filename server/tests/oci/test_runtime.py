# SPDX-License-Identifier: Apache-2.0
"""The verbs of the embedded runtime, on real sandboxes."""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from opensandbox_server.errors import StartupError
from opensandbox_server.runtimes.base import (
    ImageUnknown,
    Instance,
    InstanceState,
    InstanceUnknown,
    NotSupported,
    Resources,
    RuntimeEvent,
    RuntimeFault,
    RuntimeHome,
    RuntimeUnavailable,
    SandboxSpec,
    Secrets,
    StartFailed,
    WrongState,
)
from opensandbox_server.runtimes.oci.images import Image
from opensandbox_server.runtimes.oci.launcher import rootfs
from opensandbox_server.runtimes.oci.launcher.program import find_oci_program
from opensandbox_server.runtimes.oci.runtime import OCIRuntime
from tests.harness.runtime import TOKEN, Box, Home, find_execd, opened_home
from tests.harness.wait import PATIENCE, eventually_async

SLEEP = ("sleep", "infinity")


def test_a_started_sandbox_answers_and_knows_its_id(home: Home) -> None:
    box = home.start(env={"COLOUR": "green"})
    assert box.instance.state is InstanceState.RUNNING
    assert box.sh("echo $OPENSANDBOX_ID $COLOUR $PWD; id -u").output.split() == [
        box.id,
        "green",
        "/workspace",
        "0",
    ]
    assert [seen.id for seen in home.run(home.runtime.instances())] == [box.id]


def test_the_host_image_and_a_slot_are_there_before_the_first_create(home: Home) -> None:
    assert (home.data_dir / "images" / "host" / "image.json").is_file()
    assert list((home.data_dir / "sandboxes").glob(".ahead-*"))


def test_a_host_image_that_cannot_be_made_keeps_no_server_from_starting(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    data = tmp_path / "home"
    data.mkdir()
    (data / "images").write_text("in the way")
    with opened_home(data) as home, pytest.raises(RuntimeFault, match="images"):
        home.start()


def test_a_runtime_that_cannot_be_made_ready_leaves_no_launcher(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    data = tmp_path / "home"
    data.mkdir()
    (data / "theirs").touch()  # not private, nor ours alone: no image may be made in it
    data.chmod(0o755)
    runtime = OCIRuntime(RuntimeHome(data, data / "run", find_execd(), None, {"slots_ahead": 1}))
    with pytest.raises(StartupError, match="others may use it"):
        asyncio.run(runtime.prepare())
    with (data / "launcher.lock").open() as lock:  # who lives has it
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_stop_leaves_nothing_and_repeats_safely(home: Home) -> None:
    box = home.start()
    box.stop()
    box.stop()
    assert home.run(home.runtime.instances()) == []
    assert not (home.data_dir / "sandboxes" / box.id).exists()
    assert box.instance.execd.socket
    assert not box.instance.execd.socket.exists()


def test_pause_stops_everything_and_resume_lets_it_go_on(home: Home) -> None:
    box = home.start()
    ticking = "while :; do date +%s%N > /tmp/clock; sleep 0.01; done"
    box.sh(f"({ticking}) > /dev/null 2>&1 & until [ -s /tmp/clock ]; do sleep 0.01; done")
    home.run(home.runtime.pause(box.id))
    home.run(home.runtime.pause(box.id))
    (seen,) = home.run(home.runtime.instances())
    assert seen.state is InstanceState.PAUSED
    clock = home.data_dir / "sandboxes" / box.id / "upper" / "tmp" / "clock"
    stopped = clock.read_text()
    answers: list[str] = []
    waiting = threading.Thread(target=lambda: answers.append(box.sh("echo woke").output))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    assert clock.read_text() == stopped
    home.run(home.runtime.resume(box.id))
    home.run(home.runtime.resume(box.id))
    waiting.join(10)
    assert answers == ["woke"]
    (seen,) = home.run(home.runtime.instances())
    assert seen.state is InstanceState.RUNNING


def test_a_paused_sandbox_can_be_stopped(home: Home) -> None:
    box = home.start()
    home.run(home.runtime.pause(box.id))
    box.stop()
    assert home.run(home.runtime.instances()) == []


def test_an_unknown_id_is_refused(home: Home) -> None:
    for verb in (home.runtime.pause, home.runtime.resume, home.runtime.inspect):
        with pytest.raises(InstanceUnknown):
            home.run(verb("nobody"))
    home.run(home.runtime.stop("nobody"))


def test_the_end_of_the_entrypoint_is_told_with_its_status(home: Home) -> None:
    async def scenario() -> RuntimeEvent:
        events = home.runtime.watch()
        coming = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        spec = SandboxSpec("ends", "host", ("sh", "-c", "echo bye; sleep 1; exit 7"))
        await home.runtime.start(spec, Secrets(TOKEN))
        return await asyncio.wait_for(coming, PATIENCE)

    event = home.run(scenario())
    assert event.instance.id == "ends"
    assert event.instance.state is InstanceState.EXITED
    assert event.instance.exit_code == 7
    with pytest.raises(WrongState):
        home.run(home.runtime.pause("ends"))
    assert "bye" in home.run(home.runtime.inspect("ends")).logs
    home.run(home.runtime.stop("ends"))
    assert home.run(home.runtime.instances()) == []


def test_a_sandbox_that_ran_out_of_memory_says_so(home: Home) -> None:
    async def scenario() -> RuntimeEvent:
        events = home.runtime.watch()
        coming = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        eat = "sleep 1; exec /usr/bin/python3 -c 'x = bytearray(10**9)'"
        limits = Resources(memory_bytes=64 * 1024 * 1024)
        spec = SandboxSpec("eats", "host", ("sh", "-c", eat), resources=limits)
        await home.runtime.start(spec, Secrets(TOKEN))
        return await asyncio.wait_for(coming, PATIENCE)

    event = home.run(scenario())
    assert event.instance.exit_code == 137
    assert event.instance.reason == "it ran out of memory"


def test_logs_are_the_end_of_the_entrypoints_output(home: Home) -> None:
    box = home.start(entrypoint=["sh", "-c", "seq 1 400000; echo done > /tmp/done; sleep infinity"])
    assert box.sh("until [ -e /tmp/done ]; do sleep 0.05; done").status == 0
    deadline, logs = time.monotonic() + PATIENCE, ""
    while not logs.endswith("399999\n400000\n"):  # what is in the pipe is read when there is time
        assert time.monotonic() < deadline, logs[-50:]
        logs = home.run(home.runtime.inspect(box.id)).logs
    assert len(logs) == 256 * 1024


def test_a_flood_of_output_neither_blocks_the_entrypoint_nor_fills_the_disk(home: Home) -> None:
    flood = "head -c 300000000 /dev/zero | tr '\\0' x; echo done > /tmp/done; sleep infinity"
    box = home.start(entrypoint=["sh", "-c", flood])
    assert box.sh("until [ -e /tmp/done ]; do sleep 0.05; done").status == 0
    kept = home.data_dir / "sandboxes" / box.id
    assert sum(file.stat().st_size for file in kept.glob("log*")) < 4 * 1024 * 1024


def test_an_image_that_is_not_here_is_named_with_the_command_that_gets_it(home: Home) -> None:
    with pytest.raises(ImageUnknown, match="opensandbox-server images pull nowhere"):
        home.start("nowhere:latest")


def test_an_entrypoint_that_does_not_exist_fails_the_start_with_a_reason(home: Home) -> None:
    with pytest.raises(StartFailed, match="no such file"):
        home.start(entrypoint=["/no/such/program"])
    assert home.run(home.runtime.instances()) == []
    assert list((home.data_dir / "sandboxes").glob("[!.]*")) == []


def test_a_sandbox_has_the_name_it_was_given(home: Home) -> None:
    box = home.start(hostname="build-7")
    assert box.sh("hostname; cat /etc/hostname; getent hosts build-7 | wc -l").output == (
        "build-7\nbuild-7\n1"
    )


def test_what_this_host_cannot_do_is_refused_by_name(home: Home) -> None:
    with pytest.raises(NotSupported, match="gvisor"):
        home.start(isolation="gvisor")


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".ahead-2", "-x", "a" * 101])
def test_an_id_that_is_no_file_name_is_refused(home: Home, name: str) -> None:
    with pytest.raises(StartFailed, match="id"):
        home.start(id=name)


def test_a_removed_image_stays_with_the_sandboxes_that_run_from_it(home: Home) -> None:
    host = home.run(home.runtime.images.resolve("host"))

    def fill(root: Path) -> Image:
        shutil.copytree(host.rootfs, root, symlinks=True)
        (root / "marker").write_text("here")
        return replace(host, rootfs=root)

    home.runtime.images.add("removed", fill)
    box = home.start("removed")
    home.run(home.runtime.images.remove("removed"))
    assert box.sh("cat /marker").output == "here"
    with pytest.raises(ImageUnknown):
        home.start("removed")
    box.stop()
    home.runtime.images.sweep()
    assert not list((home.data_dir / "images").glob(".old-*"))


def test_a_cancelled_start_leaves_nothing(home: Home) -> None:
    async def scenario() -> None:
        spec = SandboxSpec("cut", "host", ("sleep", "infinity"))
        starting = asyncio.create_task(home.runtime.start(spec, Secrets(TOKEN)))
        await asyncio.sleep(0.005)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting

    for _ in range(5):
        home.run(scenario())
        assert home.run(home.runtime.instances()) == []
        assert not (home.data_dir / "sandboxes" / "cut").exists()


def test_many_starts_at_once_all_succeed(home: Home) -> None:
    async def scenario() -> int:
        specs = [SandboxSpec(f"many-{n}", "host", ("sleep", "infinity")) for n in range(20)]
        started = await asyncio.gather(
            *(home.runtime.start(spec, Secrets(TOKEN)) for spec in specs)
        )
        await asyncio.gather(*(home.runtime.stop(instance.id) for instance in started))
        return len(started)

    assert home.run(scenario()) == 20


def test_limits_are_in_force(home: Home) -> None:
    limits = Resources(cpus=0.05, memory_bytes=128 * 1024 * 1024, pids=99)
    box = home.start(resources=limits)
    box.sh("timeout 1 sh -c 'while :; do :; done'")
    cpu, memory, pids = (_cgroup(box, kind) for kind in ("cpu", "memory", "pids"))
    most = "memory.max" if cpu == memory else "memory.limit_in_bytes"  # version 2 has one tree
    assert (memory / most).read_text().strip() == "134217728"
    assert (pids / "commands" / "pids.max").read_text().strip() == "99"
    throttled = (cpu / "cpu.stat").read_text().split()
    assert int(throttled[throttled.index("nr_throttled") + 1]) > 0


def _cgroup(box: Box, controller: str) -> Path:
    """Return the cgroup of a sandbox for a controller, in whichever version."""
    tree = Path("/sys/fs/cgroup")
    own = tree / controller if (tree / controller).is_dir() else tree
    (found,) = own.glob(f"osb-*/{box.id}")
    return found


def test_a_read_only_sandbox_cannot_write_to_its_root(home: Home) -> None:
    box = home.start(is_readonly=True)
    assert "Read-only file system" in box.sh("touch /workspace/file").output


def test_runc_serves_as_well(network: int, tmp_path: Path) -> None:
    assert network >= 0
    with opened_home(tmp_path / "runc", {"program": "runc"}) as home:
        box = home.start(resources=Resources(memory_bytes=128 * 1024 * 1024, pids=64))
        assert "Seccomp:\t2" in box.sh("cat /proc/1/status").output
        assert box.sh("unshare --mount true").status != 0
        home.run(home.runtime.pause(box.id))
        home.run(home.runtime.resume(box.id))
        assert box.sh("echo alive").output == "alive"
        box.stop()


def test_a_launcher_that_is_killed_is_replaced_and_sandboxes_live_on(home: Home) -> None:
    box = home.start(entrypoint=["sh", "-c", "while :; do echo tick; sleep 0.05; done"])
    client = home.runtime._client
    assert client
    launcher = client._child
    assert launcher

    async def scenario() -> None:
        launcher.send(signal.SIGKILL)
        await eventually_async(lambda: home.runtime._client not in (None, client))

    home.run(scenario())
    (seen,) = home.run(home.runtime.instances())
    assert seen.id == box.id
    assert seen.state is InstanceState.RUNNING
    assert box.sh("echo alive").output == "alive"
    assert Box(home, home.start().instance).sh("echo another").output == "another"


def test_a_start_waits_for_the_launcher_that_replaces_a_killed_one(home: Home) -> None:
    launcher = home.runtime._client and home.runtime._client._child
    assert launcher

    async def scenario() -> Instance:
        launcher.send(signal.SIGKILL)
        await launcher.wait()
        return await home.runtime.start(SandboxSpec("late", "host", SLEEP), Secrets(TOKEN))

    instance = home.run(asyncio.wait_for(scenario(), PATIENCE))
    assert Box(home, instance).sh("echo alive").output == "alive"


def test_a_start_that_lost_its_launcher_is_done_again_by_the_next_one(home: Home) -> None:
    client = home.runtime._client
    assert client
    launcher = client._child
    assert launcher

    async def scenario() -> Instance:
        spec = SandboxSpec("again", "host", SLEEP)
        launcher.send(signal.SIGSTOP)
        starting = asyncio.create_task(home.runtime.start(spec, Secrets(TOKEN)))
        await eventually_async(lambda: client._waiting)  # it was asked
        launcher.send(signal.SIGKILL)
        return await starting

    instance = home.run(asyncio.wait_for(scenario(), PATIENCE))
    assert Box(home, instance).sh("echo alive").output == "alive"
    assert [seen.id for seen in home.run(home.runtime.instances())] == ["again"]


def test_the_program_that_starts_sandboxes_cannot_be_changed_by_one(network: int) -> None:
    assert network >= 0
    program = find_oci_program("", Path()).sealed()
    copy = Path(f"/proc/self/fd/{program.copy}")
    try:
        assert copy.read_bytes() == Path(program.path).read_bytes()
        with pytest.raises(PermissionError), copy.open("r+b") as writable:
            writable.write(b"x")
        assert fcntl.fcntl(program.copy, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE
    finally:
        os.close(program.copy)


def test_sandboxes_are_spread_over_an_ext4_disk(home: Home) -> None:
    sandboxes = home.data_dir / "sandboxes"
    ask = ["stat", "--file-system", "--format=%T", str(sandboxes)]
    kind = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    if kind != "ext2/ext3":
        pytest.skip(f"the temporary directory is on {kind}, not on ext4")
    opened, flags = os.open(sandboxes, os.O_RDONLY), array.array("l", [0])
    try:
        fcntl.ioctl(opened, rootfs.GET_FLAGS, flags)
    finally:
        os.close(opened)
    assert flags[0] & rootfs.TOP_OF_TREES


def test_without_execd_or_root_the_reason_is_given(tmp_path: Path) -> None:
    runtime = OCIRuntime(RuntimeHome(tmp_path, tmp_path / "run"))
    with pytest.raises(RuntimeUnavailable, match="execd"):
        asyncio.run(runtime.prepare())


def test_an_entrypoint_that_cannot_be_started_is_told_at_once(home: Home) -> None:
    spec = SandboxSpec("missing", "host", ("no-such-program",))
    with pytest.raises(StartFailed, match=r"status 127: .*no-such-program"):
        home.run(home.runtime.start(spec, Secrets(TOKEN)))
    assert home.run(home.runtime.instances()) == []
