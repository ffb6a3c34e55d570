# SPDX-License-Identifier: Apache-2.0
"""A killed server loses no sandbox, and the next one leaves none behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from opensandbox_server.runtimes.base import InstanceState
from opensandbox_server.runtimes.oci.runtime import cgroup_parent
from tests.harness.runtime import TOKEN, Box, find_execd, opened_home

SERVER = """
    import asyncio, sys
    from pathlib import Path
    from opensandbox_server.host.data_dir import make_private
    from opensandbox_server.runtimes.base import RuntimeHome, SandboxSpec, Secrets
    from opensandbox_server.runtimes.oci.runtime import OCIRuntime

    async def main(data: Path, execd: Path, token: str) -> None:
        make_private(data)
        (data / "run").mkdir(exist_ok=True)
        runtime = OCIRuntime(RuntimeHome(data, data / "run", execd, None, {"slots_ahead": 2}))
        await runtime.prepare()
        ticking = ["sh", "-c", "while :; do echo tick; sleep 0.05; done"]
        for name in ("stays", "goes", "sleeps"):
            await runtime.start(SandboxSpec(name, "host", ticking), Secrets(token))
        await runtime.pause("sleeps")
        print("started", flush=True)
        await asyncio.sleep(1000)

    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
"""


def start_and_kill_server(data: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SERVER), str(data), str(find_execd()), TOKEN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        assert server.stdout.readline() == "started\n"
        server.send_signal(signal.SIGKILL)


def kill_sandbox(data: Path, name: str) -> None:
    record = json.loads((data / "sandboxes" / name / "state.json").read_text())
    pidfd = os.pidfd_open(record["pid"])
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)


def test_the_next_server_finds_what_runs_what_is_paused_and_what_ended(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    data = tmp_path / "home"
    start_and_kill_server(data)
    kill_sandbox(data, "goes")
    with opened_home(data) as home:
        seen = {instance.id: instance for instance in home.run(home.runtime.instances())}
        assert {name: instance.state for name, instance in seen.items()} == {
            "stays": InstanceState.RUNNING,
            "goes": InstanceState.EXITED,
            "sleeps": InstanceState.PAUSED,
        }
        assert Box(home, seen["stays"]).sh("echo alive").output == "alive"
        home.run(home.runtime.resume("sleeps"))
        assert Box(home, seen["sleeps"]).sh("echo woke").output == "woke"
        assert home.run(home.runtime.inspect("stays")).logs.startswith("tick")
        assert home.start().sh("echo fresh").output == "fresh"
        assert not list(Path("/sys/fs/cgroup").glob(f"*/{cgroup_parent(data.resolve())}/goes"))
    assert list((data / "sandboxes").iterdir()) == []


def test_a_start_that_was_cut_off_is_removed(network: int, tmp_path: Path) -> None:
    assert network >= 0
    half = tmp_path / "home" / "sandboxes" / "half-made"
    (half / "upper").mkdir(parents=True)
    with opened_home(tmp_path / "home") as home:
        assert home.run(home.runtime.instances()) == []
        assert not half.exists()


def test_a_record_from_before_a_reboot_is_an_ended_sandbox(network: int, tmp_path: Path) -> None:
    assert network >= 0
    old = tmp_path / "home" / "sandboxes" / "old"
    old.mkdir(parents=True)
    record = {
        "id": "old",
        "image": "host",
        "slot": 5,
        "socket": str(tmp_path / "old.sock"),
        "runner": "crun",
        "created": 1.0,
        "cgroup": "old",
        "pid": os.getpid(),
        "start_ticks": 1,
        "boot": "another boot",
    }
    (old / "state.json").write_text(json.dumps(record))
    with opened_home(tmp_path / "home") as home:
        (seen,) = home.run(home.runtime.instances())
        assert seen.state is InstanceState.EXITED
        assert seen.exit_code is None
        home.run(home.runtime.stop("old"))
        assert not old.exists()
