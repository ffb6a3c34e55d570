# SPDX-License-Identifier: Apache-2.0
"""The throw-away root keeps what generated requests do away from the machine."""

from pathlib import Path

import pytest

from tests.contract.execution import fold
from tests.harness import throwaway_root
from tests.harness.execd import Daemon, run_daemon


def run(daemon: Daemon, command: str) -> list[str]:
    """Run shell text in the daemon's root and return the lines it wrote."""
    response = daemon.client.post("/command", json={"command": command}).raise_for_status()
    lines: list[str] = fold(response.content, "command")["stdout"]
    return lines


def test_deleting_and_changing_everything_in_it_leaves_the_machine_alone(
    throwaway_daemon: Daemon,
) -> None:
    outside = [throwaway_root.BUSYBOX, Path("/dev/null"), Path("/etc/passwd")]
    before = [(path.stat().st_mode, path.stat().st_size) for path in outside]
    run(throwaway_daemon, "chmod 0 /dev/null /etc/passwd /bin/busybox; rm -rf /*")
    assert [(path.stat().st_mode, path.stat().st_size) for path in outside] == before
    assert throwaway_daemon.client.get("/ping").status_code == 200


def test_it_has_neither_bash_nor_python_nor_a_network(throwaway_daemon: Daemon) -> None:
    assert run(throwaway_daemon, "which bash python3; echo $?") == ["1"]
    assert run(throwaway_daemon, "ip -o link | cut -d: -f2") == [" lo"]


def test_it_cannot_mount_make_devices_or_write_kernel_settings(throwaway_daemon: Daemon) -> None:
    for attempt in (
        "mount -t tmpfs none /tmp",
        "mknod /tmp/disk b 8 0",
        "echo x >/proc/sys/kernel/hostname",
    ):
        assert run(throwaway_daemon, f"({attempt}) 2>/dev/null; echo $?") == ["1"], attempt


def test_what_was_started_in_it_ends_with_the_daemon() -> None:
    if reason := throwaway_root.missing():
        pytest.skip(reason)
    with run_daemon("busybox") as daemon:
        namespace = Path(f"/proc/{daemon.pid}/ns/pid").stat().st_ino
        body = {"command": "trap '' TERM HUP INT; sleep 600", "background": True}
        daemon.client.post("/command", json=body).raise_for_status()
        assert len(processes_in(namespace)) >= 2
    assert processes_in(namespace) == []


def processes_in(namespace: int) -> list[str]:
    """Return the processes of this machine that are in a pid namespace."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "ns" / "pid").stat().st_ino == namespace:
                found.append(process.name)
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue  # it ended, or it is somebody else's
    return found
