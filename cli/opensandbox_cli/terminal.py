# SPDX-License-Identifier: Apache-2.0
"""A conversation between the terminal of this process and one in a sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from opensandbox_cli.failures import CommandFault
from opensandbox_cli.streams import InputStream

if TYPE_CHECKING:
    from opensandbox import Sandbox
    from opensandbox._async.terminals import Terminal

STDIN, STDOUT = 0, 1
END_OF_INPUT = b"\x04"
# What a program that was cut off may have left: a hidden cursor, mouse reports, the other screen.
SOBER = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m"


async def converse(
    sandbox: Sandbox, *, working_directory: str | None = None, command: str | None = None
) -> int:
    """Run a shell, or a command, on a terminal until it ends; returns its exit code."""
    from opensandbox.exceptions import SandboxConnectionException, SandboxException

    columns, rows = shutil.get_terminal_size()
    terminal = await sandbox.terminals.open(
        rows=rows, columns=columns, working_directory=working_directory, command=command
    )
    try:
        async with terminal:
            with raw_terminal():
                await _carry(terminal)
    except SandboxConnectionException as error:
        advice = f"see whether the sandbox lives: osb sandbox get {sandbox.id}"
        raise CommandFault(f"the terminal was closed; {advice}") from error
    except BaseException:
        with suppress(SandboxException):  # what ended this matters more
            await sandbox.terminals.delete(terminal.id)
        raise
    return (terminal.exit_code or 0) & 0xFF


async def _carry(terminal: Terminal) -> None:
    loop = asyncio.get_running_loop()
    was_resized = asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, was_resized.set)
    typing = asyncio.create_task(_send_keys(terminal), name="keys")
    resizing = asyncio.create_task(_send_sizes(terminal, was_resized), name="sizes")
    try:
        async for data in terminal:
            _show(data)
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        for task in (typing, resizing):
            task.cancel()
        await asyncio.wait([typing, resizing])


def _show(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(STDOUT, left) :]


async def _send_keys(terminal: Terminal) -> None:
    keys = InputStream(STDIN)
    while data := await keys.read():
        await terminal.send(data)
    await terminal.send(END_OF_INPUT)  # what a person would type at the end of a piped script


async def _send_sizes(terminal: Terminal, was_resized: asyncio.Event) -> None:
    while True:
        await was_resized.wait()
        was_resized.clear()
        columns, rows = os.get_terminal_size(STDIN)
        await terminal.resize(rows, columns)


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Pass every key on as it is; whatever happens, the terminal is then as it was before."""
    if not os.isatty(STDIN):
        yield
        return
    before = termios.tcgetattr(STDIN)
    tty.setraw(STDIN, termios.TCSADRAIN)  # what was typed ahead stays
    try:
        yield
    except BaseException:
        os.write(STDOUT, SOBER)
        raise
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, before)
