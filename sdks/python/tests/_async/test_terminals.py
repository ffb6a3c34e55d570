# SPDX-License-Identifier: Apache-2.0
"""Terminals: a program that thinks a person sits in front of it."""

import pytest

from opensandbox import Sandbox
from opensandbox._async.terminals import Terminal
from opensandbox.exceptions import (
    SandboxApiException,
    SandboxConnectionException,
    SandboxException,
)

pytestmark = pytest.mark.anyio


async def _rest(terminal: Terminal) -> bytes:
    written = b""
    async for data in terminal:
        written += data
    return written


async def test_what_is_typed_is_read_and_what_is_written_comes_back(sandbox: Sandbox) -> None:
    command = "stty size; read line; echo got $line; exit 7"
    async with await sandbox.terminals.open(rows=40, columns=100, command=command) as terminal:
        await terminal.send("hello\n")
        written = await _rest(terminal)
        assert b"40 100\r\n" in written
        assert b"got hello\r\n" in written
        assert terminal.exit_code == 7
        assert terminal.offset == len(written)
        assert await terminal.receive() == b""


async def test_a_terminal_can_be_resized_and_sent_signals(sandbox: Sandbox) -> None:
    command = "trap 'stty size; exit 3' INT; echo ready; while :; do sleep 0.01; done"
    async with await sandbox.terminals.open(command=command) as terminal:
        written = b""
        while b"ready" not in written:
            written += await terminal.receive()
        await terminal.resize(33, 44)
        await terminal.signal("SIGINT")
        written += await _rest(terminal)
        assert b"33 44\r\n" in written
        assert terminal.exit_code == 3


async def test_it_starts_where_it_is_told(sandbox: Sandbox) -> None:
    async with await sandbox.terminals.open(working_directory="/usr", command="pwd") as terminal:
        assert await _rest(terminal) == b"/usr\r\n"


async def test_one_can_leave_and_come_back(sandbox: Sandbox) -> None:
    command = "echo first; read line; echo second $line"
    first = await sandbox.terminals.open(command=command)
    written = b""
    while b"first" not in written:
        written += await first.receive()
    await first.close()
    again = await sandbox.terminals.attach(first.id, since=first.offset, takeover=True)
    await again.send("time\n")
    rest = await _rest(again)
    assert rest == b"time\r\nsecond time\r\n"
    await again.close()
    whole = await sandbox.terminals.attach(first.id)
    assert await _rest(whole) == written + rest
    await whole.close()


async def test_who_is_sent_away_is_told(sandbox: Sandbox) -> None:
    first = await sandbox.terminals.open(command="read line")
    with pytest.raises(SandboxApiException) as refused:
        await sandbox.terminals.attach(first.id)
    assert refused.value.status_code == 409
    assert refused.value.error.code == "ALREADY_CONNECTED"
    second = await sandbox.terminals.attach(first.id, takeover=True)
    with pytest.raises(SandboxConnectionException, match=r"TAKEN_OVER"):
        await first.receive()
    await first.close()
    await second.close()


async def test_a_deleted_terminal_ends_and_an_unknown_one_is_not_found(sandbox: Sandbox) -> None:
    terminal = await sandbox.terminals.open(command="sleep 600")
    await sandbox.terminals.delete(terminal.id)
    reason = ""
    try:
        await _rest(terminal)
    except SandboxException as gone:
        reason = gone.error.code
    assert terminal.exit_code is not None or reason == "SESSION_GONE", "whichever execd saw first"
    await terminal.close()
    for attempt in (sandbox.terminals.attach, sandbox.terminals.delete):
        with pytest.raises(SandboxApiException) as missing:
            await attempt(terminal.id)
        assert missing.value.status_code == 404
