# SPDX-License-Identifier: Apache-2.0
"""Takes the samples, in turn. Runs in an environment that has jupyter_client and ipykernel."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

PATIENCE_SECONDS = 60.0  # bounds waiting for an answer that must come
CELL = "1 + 1"


class Daemon(http.client.HTTPConnection):
    """A connection to execd over its unix socket."""

    def __init__(self, path: str) -> None:
        """Remember where the socket is."""
        super().__init__("execd")
        self._path = path

    def connect(self) -> None:
        """Connect to the unix socket instead of the host."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)

    def post(self, path: str, body: dict[str, Any]) -> bytes:
        """Make one request and read its answer to the end."""
        self.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = self.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        return content

    def make(self) -> str:
        """Make a Python context."""
        return str(json.loads(self.post("/code/context", {"language": "python"}))["id"])

    def run(self, context: str) -> None:
        """Run the cell to its end."""
        body = {"code": CELL, "context": {"id": context, "language": "python"}}
        assert b'"results":{"text":"2"}' in self.post("/code", body)


@contextmanager
def running_execd(program: str) -> Iterator[tuple[Daemon, int]]:
    """Run the daemon; its Python is the one that runs this."""
    with tempfile.TemporaryDirectory() as home:
        path = f"{home}/execd.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        search = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"
        process = subprocess.Popen(
            [program, f"--listen=fd://{listener.fileno()}", f"--state-dir={home}/state"],
            pass_fds=[listener.fileno()],
            env={**os.environ, "PATH": search},
            stderr=subprocess.DEVNULL,
        )
        listener.close()
        try:
            yield Daemon(path), process.pid
        finally:
            process.terminate()
            process.wait()


@contextmanager
def running_kernel() -> Iterator[tuple[KernelManager, Any]]:
    """Start ipykernel as Jupyter does, and wait until it answers."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=PATIENCE_SECONDS)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run_in_kernel(client: Any) -> None:
    """Run the cell until its result, its reply and idle have come."""
    client.execute_interactive(
        CELL, timeout=PATIENCE_SECONDS, allow_stdin=False, output_hook=lambda _message: None
    )


def took_ms(call: Callable[[], object]) -> float:
    """Time one call."""
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1000


def kernel_first_result_ms() -> float:
    """Start a kernel and run the first cell in it; ending it is not part of the time."""
    begun = time.perf_counter()
    with running_kernel() as (_, client):
        run_in_kernel(client)
        return (time.perf_counter() - begun) * 1000


def proportional_mib(pids: list[int]) -> float:
    """Add up the proportional set sizes."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def descendants(pid: int) -> list[int]:
    """Return every process below one."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def measure_memory(daemon: Daemon, pid: int) -> dict[str, Any]:
    """Compare ten contexts, with their parent, with two kernels; each has run a cell."""
    for _ in range(10):
        daemon.run(daemon.make())
    ours = proportional_mib(descendants(pid))
    with running_kernel() as (_, client), running_kernel() as (_, other):
        run_in_kernel(client)
        run_in_kernel(other)
        not_theirs = {pid, *descendants(pid)}
        theirs = proportional_mib([p for p in descendants(os.getpid()) if p not in not_theirs])
    return result("ten_contexts_vs_two_ipykernels", "MiB", [ours], [theirs])


def result(name: str, unit: str, ours: list[float], other: list[float]) -> dict[str, Any]:
    """Say what was measured."""
    return {"name": name, "unit": unit, "ours": ours, "other": other}


def measure(program: str, is_quick: bool) -> list[dict[str, Any]]:
    """Take one sample of each side in turn."""
    starts, cells = (2, 5) if is_quick else (12, 300)
    results = []
    with running_execd(program) as (daemon, pid):
        results.append(measure_memory(daemon, pid))
    with running_execd(program) as (daemon, pid):
        for _ in range(2):  # the second starts the parent, once in the life of a sandbox
            daemon.run(daemon.make())
        ours, other = [], []
        for _ in range(starts):
            ours.append(took_ms(lambda: daemon.run(daemon.make())))
            other.append(kernel_first_result_ms())
        results.append(result("context_vs_ipykernel", "ms", ours, other))
        context, ours, other = daemon.make(), [], []
        with running_kernel() as (_, client):
            for _ in range(cells):
                ours.append(took_ms(lambda: daemon.run(context)))
                other.append(took_ms(lambda: run_in_kernel(client)))
        results.append(result("cell_vs_jupyter_client", "ms", ours, other))
    return results


if __name__ == "__main__":
    print(json.dumps({"results": measure(sys.argv[1], "--quick" in sys.argv), "skipped": {}}))
