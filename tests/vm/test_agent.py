# SPDX-License-Identifier: Apache-2.0
"""The machine's side of the serial port, over a socket instead."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm import agent
from tests.vm.machine import Machine
from tests.vm.progress import VMError


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine that is a process of this one, with an agent on a thread."""
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as process:
        serving = threading.Thread(target=_serve, args=(theirs,))
        serving.start()
        yield Machine(process, ours, tmp_path / "console.log")
        ours.shutdown(socket.SHUT_RDWR)
        serving.join()
        process.communicate(b"\n")


def _serve(port: socket.socket) -> None:
    with port:
        agent.serve(port.fileno())


def test_a_command_gives_its_output_and_its_status(machine: Machine) -> None:
    assert machine.wait_until_booted() == os.uname().release
    log = io.StringIO()
    assert machine.run("echo one; echo two >&2; exit 3", 60, log) == 3
    assert machine.run("printf '\\303\\251'", 60, log) == 0
    assert log.getvalue() == "one\ntwo\né"


def test_a_command_that_takes_too_long_is_cut_off_with_all_it_started(
    machine: Machine, tmp_path: Path
) -> None:
    machine.wait_until_booted()
    held = tmp_path / "held"
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    started = f"sleep 600 >{held} & wait"
    assert machine.run(started, 0.5, io.StringIO()) == agent.CUT_OFF
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # nobody has it open any more
    os.close(reader)


def test_a_machine_that_ended_says_so_and_shows_its_console(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, subprocess.Popen([sys.executable, "-c", ""]) as process:
        machine = Machine(process, ours, tmp_path / "console.log")
        machine.console.write_text("\x1b[1mKernel panic\x1b[0m\r\n")
        with pytest.raises(VMError, match="the machine ended"):
            machine.wait_until_booted()
        assert machine.last_words() == "Kernel panic"
