# SPDX-License-Identifier: Apache-2.0
"""A node that runs: its first process, and the programs under it."""

from __future__ import annotations

import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tools.cluster import supervisor
from tools.cluster.component import ClusterError, Component
from tools.cluster.layout import Node

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 120.0
"""Bounds how long a program may take to be ready; on a loaded machine most of a minute is seen."""
_END_SECONDS = 20.0
_POLL_SECONDS = 0.1
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Programs for root may be where the PATH of an ordinary user does not look."""


@dataclass(frozen=True)
class RunningNode:
    """A node and its first process; `born` tells it from a later process with the same pid."""

    node: Node
    pid: int
    born: int

    @classmethod
    def launch(cls, node: Node) -> RunningNode:
        """Make the node's namespaces and its first process."""
        node.logs.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "tools.cluster.supervisor", str(node.directory)],
            cwd=ROOT,
            env={"PATH": f"{os.environ['PATH']}:{_PATH}", "HOME": "/root", "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ClusterError(f"{node.name}: {done.stderr.strip().splitlines()[-1]}")
        pid = int(done.stdout)
        return cls(node, pid, birth(pid))

    @property
    def is_alive(self) -> bool:
        """Whether its first process runs."""
        try:
            return birth(self.pid) == self.born
        except OSError:
            return False

    def start(self, component: Component) -> None:
        """Start a program of the node."""
        self._ask(
            do="start",
            name=component.name,
            arguments=list(component.arguments),
            ready=component.ready,
        )

    def children(self) -> dict[str, dict[str, object]]:
        """Return its programs by name, with `pid` and `ended`."""
        children = self._ask(do="list")["children"]
        assert isinstance(children, dict)
        return children

    def dead(self) -> list[str]:
        """Return a line for each program that ended by itself."""
        return [
            self._obituary(name, child["ended"])
            for name, child in self.children().items()
            if child["ended"] is not None and not child["wanted_to_end"]
        ]

    def wait_until_ready(self, component: Component) -> None:
        """Wait until a program answers; one that ended or takes too long is an error."""
        deadline = time.monotonic() + READY_SECONDS
        while not self._is_ready(component.ready):
            child = self.children()[component.name]
            if child["ended"] is not None:
                raise ClusterError(self._obituary(component.name, child["ended"]))
            if time.monotonic() > deadline:
                log = self.node.logs / f"{component.name}.log"
                raise ClusterError(
                    f"{component.name} of {self.node.name} is not ready after "
                    f"{READY_SECONDS:.0f} s; its log: {log}"
                )
            time.sleep(_POLL_SECONDS)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a program."""
        self._ask(do="signal", name=name, number=number)

    def restart(self, name: str) -> None:
        """End a program, if it runs, start it again as before, and wait until it is ready."""
        self.signal(name, signal.SIGTERM)
        deadline = time.monotonic() + _END_SECONDS
        while self.children()[name]["ended"] is None:
            if time.monotonic() > deadline + _END_SECONDS:
                raise ClusterError(f"{name} of {self.node.name} cannot be ended; stop the cluster")
            if time.monotonic() > deadline:
                self.signal(name, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        self._ask(do="start", name=name)
        ready = self.children()[name]["ready"]
        self.wait_until_ready(Component(name, (), str(ready)))

    def _ask(self, **request: object) -> dict[str, object]:
        try:
            answer = supervisor.ask(self.pid, **request)
        except OSError as error:
            log = self.node.logs / "supervisor.log"
            raise ClusterError(
                f"{self.node.name} does not answer ({error}); its log: {log}"
            ) from error
        if "error" in answer:
            raise ClusterError(f"{self.node.name}: {answer['error']}")
        return answer

    def _obituary(self, name: str, ended: object) -> str:
        log = self.node.logs / f"{name}.log"
        return f"{name} of {self.node.name} ended (status {ended}); its log: {log}"

    def _is_ready(self, ready: str) -> bool:
        if not ready:
            return True
        if ready.startswith("unix:"):
            return _accepts(f"/proc/{self.pid}/root{ready.removeprefix('unix:')}")
        return _answers(ready)


def end_nodes(directory: Path) -> int:
    """End every node whose files are below a directory, with everything in it; say how many.

    They are found by their command line: a start that was itself killed wrote nothing down.
    Returns once the kernel has ended them.
    """
    found = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and _is_first_process(entry, directory)
    ]
    for pid in found:
        _end(pid)
    return len(found)


def _is_first_process(process: Path, directory: Path) -> bool:
    try:
        words = (process / "cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return False
    _, found, rest = "\0".join(words).partition(f"\0-m\0{supervisor.__name__}\0")
    return bool(found) and Path(rest.rstrip("\0")).parent == directory


def _end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return
    try:
        if not select.select([descriptor], [], [], _END_SECONDS)[0]:
            raise ClusterError(f"process {pid} of the cluster does not end; stop again in a while")
    finally:
        os.close(descriptor)


def birth(pid: int) -> int:
    """Return when a process was made, in the kernel's ticks; a missing one is an OSError."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if fields[0] in "ZX":
        raise ProcessLookupError(f"process {pid} has ended")
    return int(fields[19])


def _accepts(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError:
            return False
    return True


def _answers(url: str) -> bool:
    # Only whether it is ready is asked; who it is, kubectl checks.
    trusting = ssl._create_unverified_context()
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting)
    )
    try:
        with opener.open(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:  # URLError and timeouts are OSErrors
        return False
