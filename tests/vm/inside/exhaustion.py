# SPDX-License-Identifier: Apache-2.0
"""What a machine has once: some sandboxes take all they can get; the others and it still work.

Only for a machine that may be used up. It is given less than usual of some things, so that all of
them can be taken in minutes by a processor that is translated.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.models.execd import RunCommandOpts
from opensandbox_server.runtimes.oci.launcher.rlimits import OPEN_FILES
from tests.harness.runtime import listening
from tests.harness.wait import eventually
from tests.security.internet import PUBLIC, made_outside
from tests.vm.inside.attacks import (
    CONNECTIONS,
    FILES,
    MEMORY,
    NEIGHBOURS,
    THREADS,
    UNBOUNDED_NEIGHBOURS,
)
from tests.vm.inside.server import (
    DATA,
    all_cgroups,
    cgroup_of,
    is_healthy,
    number_in,
    running_unit,
    systemctl,
)

TRACKED, MOST_TRACKED = (f"net/netfilter/nf_conntrack_{name}" for name in ("count", "max"))
SMALL = {
    "kernel/pid_max": 32768,
    MOST_TRACKED: 4096,
    # A slow sender asks for few before the first are given up.
    "net/ipv4/neigh/default/gc_thresh3": 128,
    "net/ipv6/neigh/default/gc_thresh3": 128,
    # None is forgotten before all are there.
    "net/netfilter/nf_conntrack_udp_timeout": 1200,
}
"""What the machine is given of what it has once."""
SHARE = 8
"""So many sandboxes must be full before another gets nothing."""
FEW_BYTES, ALL_BYTES = {"memory": "256Mi"}, {"memory": "64Gi"}
ASK = f"""
import socket
print(socket.create_connection(({PUBLIC!r}, PORT), 120).recv(100).decode())
"""


@pytest.fixture(scope="module")
def unit() -> Iterator[ConnectionConfigSync]:
    """The server's unit, on a machine that has little."""
    subprocess.run(["modprobe", "nf_conntrack"], check=True)
    with ExitStack() as stack:
        for name, value in SMALL.items():
            stack.enter_context(setting(name, value))
        yield stack.enter_context(running_unit())


@pytest.fixture(scope="module")
def port(unit: ConnectionConfigSync) -> Iterator[int]:
    """A port of the world outside that says hello to whoever reaches it."""
    assert unit
    with ExitStack() as stack:
        network = stack.enter_context(Path("/proc/self/ns/net").open())
        outside = stack.enter_context(made_outside(network.fileno()))
        yield stack.enter_context(listening(outside, PUBLIC))


@pytest.fixture(scope="module")
def victim(unit: ConnectionConfigSync) -> Iterator[SandboxSync]:
    """A sandbox that wants its share."""
    with sandboxes(unit, 1) as (made,):
        yield made


@contextmanager
def sandboxes(
    unit: ConnectionConfigSync, count: int, limits: dict[str, str] | None = None
) -> Iterator[list[SandboxSync]]:
    """Make some, and end them."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            made.append(SandboxSync.create("host", resource=limits, connection_config=unit))
            stack.callback(made[-1].destroy)
        yield made


@contextmanager
def setting(name: str, value: int) -> Iterator[None]:
    """Give the machine another limit."""
    file = Path("/proc/sys") / name
    before = file.read_text()
    file.write_text(str(value))
    try:
        yield
    finally:
        file.write_text(before)


def attack(boxes: list[SandboxSync], program: str) -> None:
    """Run a program in sandboxes, and let it run."""
    for box in boxes:
        box.files.write_file("/tmp/attack.py", program.replace("PUBLIC", PUBLIC))
        box.commands.run("python3 /tmp/attack.py", opts=RunCommandOpts(background=True))


def wait(boxes: list[SandboxSync], has_all: Callable[[SandboxSync], object]) -> None:
    """Return when each has got all it can. They are looked at from outside: none may answer."""
    slow = "the attack was too slow to show anything"
    eventually(lambda: all(has_all(box) for box in boxes), slow)


def told(box: SandboxSync) -> str:
    """Return what an attack has written down."""
    file = DATA / "sandboxes" / box.id / "upper/tmp/full"
    return file.read_text() if file.exists() else ""


def assert_host_works(port: int) -> None:
    """The host, the server, ingress and the launcher are as they were."""
    assert subprocess.run(["/bin/sh", "-c", "true | true"], check=True).returncode == 0
    with socket.create_connection((PUBLIC, port), 120) as connection:
        assert connection.recv(100) == b"hello"
    assert is_healthy()
    assert systemctl("show", "opensandbox", "--property=NRestarts", "--value") == "0"


def assert_works(unit: ConnectionConfigSync, victim: SandboxSync, port: int) -> None:
    """All of them, another sandbox and one that is made now."""
    assert_host_works(port)
    with sandboxes(unit, 1) as (another,):
        for box in (victim, another):
            box.files.write_file("/tmp/ask.py", ASK.replace("PORT", str(port)))
            assert box.commands.run("python3 /tmp/ask.py | cat").text == "hello"


@pytest.fixture(autouse=True)
def _processes_stay(unit: ConnectionConfigSync) -> Iterator[None]:
    """Nothing of the server ends."""
    assert unit
    before = own_processes()
    yield
    assert own_processes() >= before


def own_processes() -> set[str]:
    """Name the processes of the server that are there for ever."""
    main = systemctl("show", "opensandbox", "--property=MainPID", "--value")
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", main], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {main, *(line.strip() for line in listed if "launcher" in line or "ingress" in line)}


def test_a_sandbox_sends_to_all_the_neighbours_it_can(
    unit: ConnectionConfigSync, victim: SandboxSync, port: int
) -> None:
    subprocess.run(["dmesg", "--clear"], check=True)
    subprocess.run(["unshare", "--net", "sh", "-ec", UNBOUNDED_NEIGHBOURS], check=True)
    assert has_overflown()
    with sandboxes(unit, 1) as boxes:
        subprocess.run(["dmesg", "--clear"], check=True)
        attack(boxes, NEIGHBOURS)
        wait(boxes, told)
        assert_works(unit, victim, port)
        assert not has_overflown()


def has_overflown() -> bool:
    said = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    return "neighbor table overflow" in said


def test_sandboxes_open_all_the_connections_they_can(
    unit: ConnectionConfigSync, victim: SandboxSync, port: int
) -> None:
    most = SMALL[MOST_TRACKED]
    with sandboxes(unit, SHARE + 1) as boxes:
        attack(boxes[:1], CONNECTIONS)
        wait(boxes[:1], lambda _: tracked() >= most // 2 // SHARE)
        assert_works(unit, victim, port)
        attack(boxes[1:], CONNECTIONS)
        wait(boxes[:1], lambda _: tracked() >= most // 2)
        for _ in range(5):
            assert_host_works(port)
            assert tracked() < most * 3 // 4
            time.sleep(5)
    assert_works(unit, victim, port)


def tracked() -> int:
    return int(Path("/proc/sys", TRACKED).read_text())


def test_a_sandbox_opens_all_the_files_it_can(
    unit: ConnectionConfigSync, victim: SandboxSync, port: int
) -> None:
    with sandboxes(unit, 1, FEW_BYTES) as boxes:
        attack(boxes, FILES)
        wait(boxes, lambda box: number_in(cgroup_of(box.id) / "memory.events", "oom_kill"))
        files = int(Path("/proc/sys/fs/file-nr").read_text().split()[0])
        assert files > OPEN_FILES  # what one process may have
        assert_works(unit, victim, port)


def test_sandboxes_take_all_the_memory_they_can(
    unit: ConnectionConfigSync, victim: SandboxSync, port: int
) -> None:
    with sandboxes(unit, 2, ALL_BYTES) as boxes:
        attack(boxes, MEMORY)
        wait(boxes, lambda _: number_in(all_cgroups() / "memory.events.local", "oom"))
        assert_works(unit, victim, port)


def test_sandboxes_start_all_the_threads_they_can(
    unit: ConnectionConfigSync, victim: SandboxSync, port: int
) -> None:
    with sandboxes(unit, SHARE) as boxes:
        attack(boxes[1:], THREADS)
        wait(boxes[1:], told)
        assert_works(unit, victim, port)
        attack(boxes[:1], THREADS)
        wait(boxes[:1], told)
        assert_host_works(port)
        assert victim.get_info().status.state == "Running"
    assert_works(unit, victim, port)
