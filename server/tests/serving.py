# SPDX-License-Identifier: Apache-2.0
"""A real server in a process of its own, with the real ingress and execd."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

KEY = "a key of the tests"
START_SECONDS = 100  # bounds a start that never comes; a machine with much to do takes over 30
END_SECONDS = 20


class NotServing(Exception):
    """The server ended before it listened; the message is what it said."""


@dataclass
class Serving:
    """A server that listens."""

    url: str
    process: subprocess.Popen[bytes]
    said: Path

    def client(self, key: str = KEY) -> httpx.Client:
        """Return a client with a key."""
        return httpx.Client(
            base_url=f"{self.url}/v1",
            headers={"OPEN-SANDBOX-API-KEY": key},
            timeout=30,
            verify=False,  # there is no TLS, and to prepare it takes longer than most requests
        )

    def output(self) -> str:
        """Return everything it said until now."""
        return self.said.read_text()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal it, and return its status once it is gone."""
        self.process.send_signal(number)
        return self.process.wait(END_SECONDS)


@contextlib.contextmanager
def serving(
    data_dir: Path, *flags: str, key: str | None = KEY, around: Sequence[str] = ()
) -> Iterator[Serving]:
    """Run a server on any free port, by a command around it if need be. Raises NotServing."""
    words = [
        *around,
        sys.executable,
        "-m",
        "opensandbox_server",
        "--port",
        "0",
        "--data-dir",
        str(data_dir),
        *flags,
    ]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SANDBOX_")}
    environ |= {"HOME": str(data_dir.parent)} | ({"OPENSANDBOX_SERVER_API_KEY": key} if key else {})
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    said = data_dir.parent / f"{data_dir.name}.{time.monotonic_ns()}.log"
    with said.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, env=environ)
    try:
        yield Serving(wait_for_url(process, said), process, said)
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def wait_for_url(process: subprocess.Popen[bytes], said: Path) -> str:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if found := re.search(r"listening on (http://\S+)", said.read_text()):
            return found[1]
        if process.poll() is not None:
            raise NotServing(said.read_text())
        time.sleep(0.01)
    raise NotServing(f"it did not listen in {START_SECONDS} s: {said.read_text()}")
