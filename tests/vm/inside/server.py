# SPDX-License-Identifier: Apache-2.0
"""The server as a unit of systemd."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from opensandbox.config import ConnectionConfigSync
from opensandbox_server.runtimes.oci.runtime import cgroup_parent
from tests.harness.wait import eventually
from tests.vm.recipe import CLONE

ADDRESS = "127.0.0.1:8080"
DATA = Path("/var/lib/opensandbox")


def printed_unit() -> str:
    """Return the unit that this installation prints."""
    words = [f"{CLONE}/.venv/bin/opensandbox-server", "systemd-unit"]
    words += ["--port", "8080", "--data-dir", str(DATA)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def systemctl(*words: str) -> str:
    """Ask systemd; returns what it says."""
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def all_cgroups() -> Path:
    """Return the cgroup of all sandboxes."""
    return Path("/sys/fs/cgroup", cgroup_parent(DATA))


def cgroup_of(sandbox: str) -> Path:
    """Return the cgroup of one."""
    record = json.loads((DATA / "sandboxes" / sandbox / "state.json").read_text())
    return all_cgroups() / str(record["cgroup"])


def number_in(file: Path, name: str) -> int:
    """Return one of the numbers in a file of a cgroup."""
    return int(dict(line.split() for line in file.read_text().splitlines())[name])


def wait_until_healthy() -> None:
    """Return when the server answers at its front door."""
    read = ["journalctl", "-u", "opensandbox"]
    eventually(is_healthy, lambda: subprocess.run(read, capture_output=True).stdout[-4000:])


def is_healthy() -> bool:
    """Say whether the server answers at its front door."""
    try:
        return httpx.get(f"http://{ADDRESS}/health", timeout=30).is_success
    except httpx.TransportError:
        return False


@contextmanager
def running_unit() -> Iterator[ConnectionConfigSync]:
    """Run the unit, and leave neither it nor a sandbox of it behind."""
    file = Path("/run/systemd/system/opensandbox.service")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(printed_unit())
    systemctl("daemon-reload")
    systemctl("start", "opensandbox")
    try:
        wait_until_healthy()
        yield ConnectionConfigSync(domain=ADDRESS, api_key=(DATA / "api_key").read_text().strip())
    finally:
        systemctl("stop", "opensandbox")
        file.unlink()
        systemctl("daemon-reload")
