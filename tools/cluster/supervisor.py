# SPDX-License-Identifier: Apache-2.0
"""The first process of a node: it has namespaces of its own, and the node's programs are children.

When it is killed, the kernel kills every process of the node, and with them go its mounts, links,
routes and rules. It starts no program again by itself, so that a fault stays visible.

It listens at SOCKET, which the host reaches below `/proc/<pid>/root`: a line of JSON each way.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.cluster import mounts

SOCKET = "/run/supervisor.sock"
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
_CLONE_NEWPID, _CLONE_NEWNET = 0x20000000, 0x40000000
_NAMESPACES = _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET
_PATIENCE_SECONDS = 5.0
"""Bounds how long a client may take to send its line."""


@dataclass
class Child:
    """A program that was started, and how it ended if it has."""

    arguments: list[str]
    ready: str
    pid: int
    ended: int | None = None
    wanted_to_end: bool = False


class Supervisor:
    """Starts programs, notices when they end, and answers questions about them."""

    def __init__(self, logs: Path) -> None:
        """Programs write to `<name>.log` below logs."""
        self._logs = logs
        self._children: dict[str, Child] = {}

    def answer(self, request: dict[str, object]) -> dict[str, object]:
        """Do what a line of JSON asks for."""
        match request:
            case {
                "do": "start",
                "name": str(name),
                "arguments": list(arguments),
                "ready": str(ready),
            }:
                self._start(name, [str(argument) for argument in arguments], ready)
            case {"do": "start", "name": str(name)} if name in self._children:
                known = self._children[name]
                self._start(name, known.arguments, known.ready)
            case {"do": "signal", "name": str(name), "number": int(number)} if (
                name in self._children
            ):
                self._signal(self._children[name], number)
            case {"do": "list"}:
                pass
            case {"name": name}:
                return {"error": f"{name} is not known here"}
            case _:
                return {"error": f"{request} is not known here"}
        return {"children": {name: vars(child) for name, child in self._children.items()}}

    def reap(self) -> None:
        """Take note of every process that ended, those too that a program left behind."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name, child in self._children.items():
                if child.pid == pid and child.ended is None:
                    child.ended = os.waitstatus_to_exitcode(status)
                    if not child.wanted_to_end:
                        print(f"{name} ended: {child.ended}; {self._log(name)}", flush=True)

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _start(self, name: str, arguments: list[str], ready: str) -> None:
        known = self._children.get(name)
        if known is not None and known.ended is None:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawnp(
            arguments[0],
            arguments,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self._log(name)), flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE],
        )
        self._children[name] = Child(arguments, ready, pid)

    def _signal(self, child: Child, number: int) -> None:
        if child.ended is None:
            child.wanted_to_end = number == signal.SIGTERM
            os.kill(child.pid, number)


def serve(supervisor: Supervisor, listener: socket.socket) -> None:
    """Answer clients and reap children, for ever."""
    wakes, woken = socket.socketpair()
    wakes.setblocking(False)
    woken.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is woken:
                    woken.recv(1024)
                else:
                    _serve_one(supervisor, listener.accept()[0])
                supervisor.reap()


def _serve_one(supervisor: Supervisor, client: socket.socket) -> None:
    with client, client.makefile("rw") as stream:
        client.settimeout(_PATIENCE_SECONDS)
        try:
            answer = supervisor.answer(json.loads(stream.readline()))
        except (OSError, ValueError) as error:  # no such program, a client that went or stammers
            answer = {"error": str(error)}
        try:
            stream.write(json.dumps(answer) + "\n")
            stream.flush()
        except OSError as error:
            print(f"a client went: {error}", flush=True)


def ask(pid: int, **request: object) -> dict[str, object]:
    """Send a request to the supervisor that the host knows as `pid`, and return its answer."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_PATIENCE_SECONDS)
        client.connect(f"/proc/{pid}/root{SOCKET}")
        with client.makefile("rw") as stream:
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            answer: dict[str, object] = json.loads(stream.readline())
            return answer


def _first_process(directory: Path, told: int) -> None:
    os.setsid()
    log = os.open(directory / "logs/supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    mounts.arrange(directory)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(SOCKET)
        listener.listen()
        os.write(told, b"ready")
        os.close(told)
        serve(Supervisor(directory / "logs"), listener)


def main(directory: Path) -> None:
    """Make the namespaces and the first process in them, whose pid is printed once it listens."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NAMESPACES):
        number = ctypes.get_errno()
        sys.exit(f"namespaces cannot be made: {os.strerror(number)}")
    hears, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(hears)
        _first_process(directory, told)
    os.close(told)
    if os.read(hears, 16) != b"ready":
        sys.exit(f"the node's first process ended; see {directory / 'logs/supervisor.log'}")
    print(pid)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
