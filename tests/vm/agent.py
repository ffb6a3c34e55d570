# SPDX-License-Identifier: Apache-2.0
"""Runs in the virtual machine: does what the host asks for by a serial port, one thing at a time.

Both sides write lines of JSON. The host: `{"run": COMMAND, "seconds": LIMIT}`. The machine:
`{"ready": KERNEL}` once, `{"output": TEXT}` as it comes, and `{"ended": STATUS}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time

PORT = "/dev/virtio-ports/opensandbox"
CUT_OFF = -1000
"""The status of what took longer than it may."""
NOT_STARTED = -1001
"""The status of what the machine had no room for."""


def serve(port: int) -> None:
    """Do what the host asks for until it says no more."""
    tell(port, {"ready": os.uname().release})
    received = b""
    while said := os.read(port, 65536):
        received += said
        while b"\n" in received:
            line, _, received = received.partition(b"\n")
            asked = json.loads(line)
            tell(port, {"ended": run(port, asked["run"], asked["seconds"])})


def run(port: int, command: str, seconds: float) -> int:
    """Run a command, pass on what it says, and return its status."""
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        tell(port, {"output": f"{command}: {error}\n"})
        return NOT_STARTED
    with process:
        assert process.stdout
        is_ended = pass_on(port, process.stdout.fileno(), time.monotonic() + seconds)
        # Also what it left running.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode if is_ended else CUT_OFF


def pass_on(port: int, output: int, deadline: float) -> bool:
    """Send output until there is no more; False when the time is up before."""
    while (left := deadline - time.monotonic()) > 0:
        if select.select([output], [], [], left)[0]:
            said = os.read(output, 65536)
            if not said:
                return True
            tell(port, {"output": said.decode(errors="replace")})
    return False


def tell(port: int, message: dict[str, object]) -> None:
    """Send one line."""
    left = json.dumps(message).encode() + b"\n"
    while left:
        left = left[os.write(port, left) :]


if __name__ == "__main__":
    serve(os.open(PORT, os.O_RDWR))
