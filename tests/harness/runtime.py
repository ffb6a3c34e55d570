# SPDX-License-Identifier: Apache-2.0
"""A real embedded runtime in a network of its own, driven from plain tests.

Everything happens in a fresh network namespace: bridge, rules and routes of the machine that runs
the tests stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.client
import itertools
import json
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pyroute2 import IPRoute  # type: ignore[import-untyped]

from opensandbox_server.host.data_dir import make_private
from opensandbox_server.host.programs import find_program
from opensandbox_server.runtimes.base import Instance, Resources, RuntimeHome, SandboxSpec, Secrets
from opensandbox_server.runtimes.oci.doctor import examine
from opensandbox_server.runtimes.oci.launcher import syscalls
from opensandbox_server.runtimes.oci.options import read_options
from opensandbox_server.runtimes.oci.runtime import OCIRuntime
from tests.harness.wait import PATIENCE
from tests.security import weak_launcher

_CLONE_FS = 0x200
Result = TypeVar("Result")
TOKEN = "the token of the tests"  # noqa: S105  # of sandboxes that live for seconds
_numbers = itertools.count(1)


class WeakenedRuntime(OCIRuntime):
    """Has a launcher that can leave protections out, to see that an attack works without them."""

    launcher = (sys.executable, "-P", "-s", weak_launcher.__file__)


@dataclass
class Outcome:
    """What a command in a sandbox did."""

    status: int
    output: str


class Box:
    """A running sandbox, spoken to through its execd."""

    def __init__(self, home: Home, instance: Instance) -> None:
        self._home = home
        self.instance = instance
        self.id = instance.id

    def sh(self, command: str, timeout: float = PATIENCE) -> Outcome:
        """Run a shell command to its end; standard error is part of the output."""
        marked = f"( {command}\n) 2>&1; printf '\\nstatus:%s\\n' $?"
        lines = [
            str(event["text"])
            for event in self._events({"command": marked}, timeout)
            if event["type"] in ("stdout", "stderr")
        ]
        for number, line in enumerate(lines):
            if line.startswith("status:"):
                output = "\n".join(lines[:number]).strip("\n")
                return Outcome(int(line.removeprefix("status:")), output)
        return Outcome(-1, "\n".join(lines))

    def python(self, code: str, timeout: float = PATIENCE) -> Outcome:
        """Run a Python program."""
        return self.sh(f"/usr/bin/python3 -c {shlex.quote(code)}", timeout)

    def answer(self, command: str) -> str:
        """Ask for a command; return everything that was answered, refusals too."""
        return self._ask("POST", "/command", json.dumps({"command": command}), PATIENCE)

    def stop_processes(self) -> None:
        """End everything in it but its first process and its entrypoint."""
        freezers = [where for where, _, _ in os.walk("/sys/fs/cgroup") if where.endswith(self.id)]
        for pid in {int(pid) for where in freezers for pid in _processes(where)}:
            if b"execd" not in (said := _command_line(pid)) and b"infinity" not in said:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """End it."""
        self._home.run(self._home.runtime.stop(self.id))

    def metrics(self) -> dict[str, float]:
        """Ask its execd what it may use and does use."""
        told: dict[str, float] = json.loads(self._ask("GET", "/metrics", None, PATIENCE))
        return told

    def _events(self, body: Mapping[str, object], timeout: float) -> Iterator[dict[str, Any]]:
        for line in self._ask("POST", "/command", json.dumps(body), timeout).splitlines():
            if line.startswith("{"):
                yield json.loads(line)

    def _ask(self, method: str, path: str, body: str | None, timeout: float) -> str:
        assert self.instance.execd.socket
        connection = http.client.HTTPConnection("execd")
        connection.sock = socket.socket(socket.AF_UNIX)
        with contextlib.closing(connection):
            connection.sock.settimeout(timeout)
            connection.sock.connect(str(self.instance.execd.socket))
            headers = {"X-EXECD-ACCESS-TOKEN": TOKEN, "Content-Type": "application/json"}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            return answer.read().decode(errors="replace")


class Home:
    """One runtime and the event loop it lives on."""

    def __init__(self, data_dir: Path, options: Mapping[str, object], execd: Path) -> None:
        self.data_dir = data_dir
        make_private(data_dir)
        (data_dir / "run").mkdir(exist_ok=True)
        self._runner = asyncio.Runner()
        self.runtime = WeakenedRuntime(
            RuntimeHome(data_dir, data_dir / "run", execd, None, dict(options))
        )

    def open(self) -> None:
        """Prepare the runtime."""
        self.run(self.runtime.prepare())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end."""
        return self._runner.run(work)

    def start(
        self,
        image: str = "host",
        entrypoint: Sequence[str] = ("sleep", "infinity"),
        *,
        without: tuple[str, ...] = (),
        resources: Resources = Resources(),  # noqa: B008
        **wanted: Any,
    ) -> Box:
        """Start a sandbox, without some of its protections when a test says so."""
        name = wanted.pop("id", f"test-{os.getpid()}-{next(_numbers)}")
        env = {**wanted.pop("env", {}), **weak_launcher.asked_for(without)}
        spec = SandboxSpec(name, image, tuple(entrypoint), env, resources, **wanted)
        return Box(self, self.run(self.runtime.start(spec, Secrets(TOKEN))))

    def stop_all(self) -> None:
        """Stop every sandbox."""
        for instance in self.run(self.runtime.instances()):
            self.run(self.runtime.stop(instance.id))

    def close(self) -> None:
        """Close the runtime."""
        self.run(self.runtime.close())
        self._runner.close()

    @property
    def launcher(self) -> int:
        """The process id of its launcher."""
        client = self.runtime._client
        assert client
        assert client._child
        return client._child.pid

    @property
    def bridge(self) -> str:
        """The name of this runtime's bridge."""
        return f"osb{json.loads((self.data_dir / 'network.json').read_text())['block']}"


def _processes(cgroup: str) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(cgroup, "cgroup.procs").read_text().split()
    return []


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@functools.cache
def missing() -> str:
    """Say what keeps the embedded runtime from working here; empty when nothing does."""
    found = [fault for fault in examine(find_execd(), read_options({})) if not fault.is_ok]
    return "; ".join(
        f"{fault.name}: {fault.message}" for fault in found if fault.name != "resolver"
    )


def find_execd() -> Path | None:
    """Find the program under test."""
    return find_program("execd")


@contextlib.contextmanager
def own_network() -> Iterator[int]:
    """Put the calling thread into a network namespace of its own; yields its descriptor."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    syscalls.unshare(syscalls.CLONE_NEWNET)
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with IPRoute() as netlink:
        netlink.link("set", index=1, state="up")
    try:
        yield own
    finally:
        syscalls.setns(before, syscalls.CLONE_NEWNET)
        os.close(before)
        os.close(own)


@contextlib.contextmanager
def own_mounts() -> Iterator[None]:
    """Put the calling thread into a mount namespace of its own, whose mounts others may follow."""
    before = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    directory = Path.cwd()
    syscalls.unshare(syscalls.CLONE_NEWNS)
    try:
        for propagation in (syscalls.MS_PRIVATE, syscalls.MS_SHARED):
            syscalls.mount("none", "/", "", syscalls.MS_REC | propagation)
        yield
    finally:
        # A thread that was started meanwhile and has not ended yet shares our directories, and who
        # shares them may not change its mount namespace.
        syscalls.unshare(_CLONE_FS)
        syscalls.setns(before, syscalls.CLONE_NEWNS)
        os.close(before)
        os.chdir(directory)


@contextlib.contextmanager
def opened_home(data_dir: Path, options: Mapping[str, object] | None = None) -> Iterator[Home]:
    """Open a runtime, and leave nothing of it behind."""
    execd = find_execd()
    assert execd is not None
    home = Home(data_dir, {"slots_ahead": 3, **(options or {})}, execd)
    home.open()
    try:
        yield home
    finally:
        home.stop_all()
        home.close()


@contextlib.contextmanager
def listening(netns: int, address: str, port: int = 0, reply: bytes = b"hello") -> Iterator[int]:
    """Answer TCP connections at an address in a network namespace; yields the port."""
    listener = in_namespace(netns, lambda: socket.create_server((address, port)))

    def answer() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.sendall(reply)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def in_namespace(netns: int, work: Any) -> Any:
    """Call work on a thread that is in a network namespace."""
    results: list[Any] = []

    def run() -> None:
        syscalls.setns(netns, syscalls.CLONE_NEWNET)
        results.append(work())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]
