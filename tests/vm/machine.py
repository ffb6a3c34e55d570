# SPDX-License-Identifier: Apache-2.0
"""A virtual machine that runs: QEMU without the help of the processor, so it works anywhere."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tests.vm.image import Image
from tests.vm.progress import VMError
from tests.vm.recipe import PORT

BOOT_SECONDS = 900.0
OFF_SECONDS = 60.0
"""How long it may take to switch itself off before it is killed."""
SLACK_SECONDS = 60.0
"""How much longer than a command may take its answer is waited for."""
CONSOLE_LINES = 40
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9])|\r")


class Machine:
    """Asks a machine to run commands, through a serial port of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: socket.socket, console: Path):
        """Take over the process and the port."""
        self.process = process
        self.console = console
        self._port = port
        self._received = b""

    def wait_until_booted(self) -> str:
        """Return the version of its kernel once it takes commands."""
        return str(self._next(time.monotonic() + BOOT_SECONDS)["ready"])

    def run(self, command: str, seconds: float, log: TextIO) -> int:
        """Run a shell command in this clone, write what it says to log, and return its status."""
        self._port.sendall(json.dumps({"run": command, "seconds": seconds}).encode() + b"\n")
        deadline = time.monotonic() + seconds + SLACK_SECONDS
        while True:
            message = self._next(deadline)
            if "ended" in message:
                return int(str(message["ended"]))
            log.write(str(message["output"]))
            log.flush()

    def last_words(self) -> str:
        """Return the end of what its console showed."""
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        return "\n".join(_ESCAPES.sub("", text).splitlines()[-CONSOLE_LINES:])

    def _next(self, deadline: float) -> dict[str, object]:
        while b"\n" not in self._received:
            self._port.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                received = self._port.recv(65536)
            except TimeoutError:
                raise VMError("the machine does not answer any more") from None
            if not received:
                raise VMError("the machine ended")
            self._received += received
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, object] = json.loads(line)
        return message


@contextmanager
def running(image: Image, clone: Path, console: Path) -> Iterator[Machine]:
    """Start a machine; in the end it is off, and nothing of it is left but its console."""
    console.unlink(missing_ok=True)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        words = qemu(image, clone, [f"file:{console}"])
        words += ["-chardev", f"socket,id=port,fd={theirs.fileno()}"]
        words += ["-device", f"virtserialport,chardev=port,name={PORT}"]
        process = start(words, pass_fds=(theirs.fileno(),))
        theirs.close()
        try:
            yield Machine(process, ours, console)
        finally:
            _end(process)


def qemu(image: Image, clone: Path, serial: list[str]) -> list[str]:
    """Return how to start it. What it writes to its disks is forgotten when it ends."""
    disks = [f"file={disk},format=raw,if=virtio,snapshot=on" for disk in (image.root, clone)]
    arguments = "root=/dev/vda rw console=ttyS0 panic=-1 mitigations=off"
    words = ["qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot"]
    # With five levels of page tables, QEMU 7.2 makes Linux 6.1.192 write paths wrongly.
    words += ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,svm=off,la57=off"]
    words += ["-smp", "2", "-m", "4G", "-device", "virtio-rng-pci", "-device", "virtio-serial"]
    words += ["-kernel", str(image.kernel), "-initrd", str(image.initial), "-append", arguments]
    # It has an address and a resolver that never answers: nothing it sends leaves this process.
    words += ["-nic", "user,restrict=on,model=virtio-net-pci"]
    for option, values in (("-drive", disks), ("-serial", serial)):
        for value in values:
            words += [option, value]
    return words


def start(words: list[str], pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """Start QEMU, which ends with us, however we end."""
    try:
        return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], pass_fds=pass_fds)
    except FileNotFoundError as error:
        raise VMError(f"not installed: {error.filename}; run scripts/setup vm") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)  # QEMU ends at once; its disks are thrown away
    try:
        process.wait(OFF_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
