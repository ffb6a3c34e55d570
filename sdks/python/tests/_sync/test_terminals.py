# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_terminals.py by scripts/unasync.py; change it there.
"""Terminals: a program that thinks a person sits in front of it."""

import pytest

from opensandbox import SandboxSync
from opensandbox._sync.terminals import Terminal
from opensandbox.exceptions import (
    SandboxApiException,
    SandboxConnectionException,
    SandboxException,
)


def _rest(terminal: Terminal) -> bytes:
    written = b""
    for data in terminal:
        written += data
    return written


def test_what_is_typed_is_read_and_what_is_written_comes_back(sandbox: SandboxSync) -> None:
    command = "stty size; read line; echo got $line; exit 7"
    with sandbox.terminals.open(rows=40, columns=100, command=command) as terminal:
        terminal.send("hello\n")
        written = _rest(terminal)
        assert b"40 100\r\n" in written
        assert b"got hello\r\n" in written
        assert terminal.exit_code == 7
        assert terminal.offset == len(written)
        assert terminal.receive() == b""


def test_a_terminal_can_be_resized_and_sent_signals(sandbox: SandboxSync) -> None:
    command = "trap 'stty size; exit 3' INT; echo ready; while :; do sleep 0.01; done"
    with sandbox.terminals.open(command=command) as terminal:
        written = b""
        while b"ready" not in written:
            written += terminal.receive()
        terminal.resize(33, 44)
        terminal.signal("SIGINT")
        written += _rest(terminal)
        assert b"33 44\r\n" in written
        assert terminal.exit_code == 3


def test_it_starts_where_it_is_told(sandbox: SandboxSync) -> None:
    with sandbox.terminals.open(working_directory="/usr", command="pwd") as terminal:
        assert _rest(terminal) == b"/usr\r\n"


def test_one_can_leave_and_come_back(sandbox: SandboxSync) -> None:
    command = "echo first; read line; echo second $line"
    first = sandbox.terminals.open(command=command)
    written = b""
    while b"first" not in written:
        written += first.receive()
    first.close()
    again = sandbox.terminals.attach(first.id, since=first.offset, takeover=True)
    again.send("time\n")
    rest = _rest(again)
    assert rest == b"time\r\nsecond time\r\n"
    again.close()
    whole = sandbox.terminals.attach(first.id)
    assert _rest(whole) == written + rest
    whole.close()


def test_who_is_sent_away_is_told(sandbox: SandboxSync) -> None:
    first = sandbox.terminals.open(command="read line")
    with pytest.raises(SandboxApiException) as refused:
        sandbox.terminals.attach(first.id)
    assert refused.value.status_code == 409
    assert refused.value.error.code == "ALREADY_CONNECTED"
    second = sandbox.terminals.attach(first.id, takeover=True)
    with pytest.raises(SandboxConnectionException, match=r"TAKEN_OVER"):
        first.receive()
    first.close()
    second.close()


def test_a_deleted_terminal_ends_and_an_unknown_one_is_not_found(sandbox: SandboxSync) -> None:
    terminal = sandbox.terminals.open(command="sleep 600")
    sandbox.terminals.delete(terminal.id)
    reason = ""
    try:
        _rest(terminal)
    except SandboxException as gone:
        reason = gone.error.code
    assert terminal.exit_code is not None or reason == "SESSION_GONE", "whichever execd saw first"
    terminal.close()
    for attempt in (sandbox.terminals.attach, sandbox.terminals.delete):
        with pytest.raises(SandboxApiException) as missing:
            attempt(terminal.id)
        assert missing.value.status_code == 404
