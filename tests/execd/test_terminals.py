# SPDX-License-Identifier: Apache-2.0
"""Terminals over WebSocket: replay, resize, signals, takeover, pipe mode."""

import json
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, unix_connect

from tests.execd.events import assert_error
from tests.harness.execd import Daemon
from tests.harness.wait import eventually

STDIN, STDOUT, STDERR, REPLAY = 0, 1, 2, 3
WAIT_SECONDS = 20.0


class Terminal:
    """One connection to a terminal; keeps what came until it is asked for."""

    def __init__(self, daemon: Daemon, identifier: str, query: str = "") -> None:
        """Connect; raises InvalidStatus when the daemon refuses."""
        uri = f"ws://execd/pty/{identifier}/ws?{query}"
        self._stack = ExitStack()
        opening = unix_connect(str(daemon.socket_path), uri)
        self.connection: ClientConnection = self._stack.enter_context(opening)
        self.texts: list[dict[str, Any]] = []
        self.output = {STDOUT: b"", STDERR: b"", REPLAY: b""}
        self.replay_offset: int | None = None

    def __enter__(self) -> "Terminal":
        """Use as a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave; the shell lives on."""
        self._stack.close()

    def receive(self) -> None:
        """Take one message."""
        message = self.connection.recv(timeout=WAIT_SECONDS)
        if isinstance(message, str):
            self.texts.append(json.loads(message))
            return
        kind, payload = message[0], message[1:]
        if kind == REPLAY:
            self.replay_offset = int.from_bytes(payload[:8], "big")
            payload = payload[8:]
        self.output[kind] += payload

    def until_text(self, kind: str) -> dict[str, Any]:
        """Take messages until a text message of that type has come."""
        while True:
            for index, text in enumerate(self.texts):
                if text["type"] == kind:
                    return self.texts.pop(index)
            self.receive()

    def until_output(self, wanted: bytes, kind: int = STDOUT) -> bytes:
        """Take messages until the output contains wanted; return all of it so far."""
        while wanted not in self.output[kind]:
            self.receive()
        return self.output[kind]

    def until_closed(self) -> ConnectionClosed:
        """Take messages until the daemon closes the connection."""
        while True:
            try:
                self.receive()
            except ConnectionClosed as closed:
                return closed

    def type(self, text: bytes) -> None:
        """Send input."""
        self.connection.send(bytes([STDIN]) + text)

    def say(self, **message: object) -> None:
        """Send a text message."""
        self.connection.send(json.dumps(message))


def make(daemon: Daemon, **body: object) -> str:
    answer = daemon.client.post("/pty", json={"cwd": daemon.workdir, **body})
    assert answer.status_code == 201, answer.text
    identifier: str = answer.json()["session_id"]
    return identifier


def state(daemon: Daemon, identifier: str) -> dict[str, Any]:
    answer = daemon.client.get(f"/pty/{identifier}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def test_a_shell_starts_at_the_first_attach_and_answers(daemon: Daemon) -> None:
    identifier = make(daemon)
    assert state(daemon, identifier)["running"] is False
    with Terminal(daemon, identifier) as terminal:
        connected = terminal.until_text("connected")
        assert connected["session_id"] == identifier
        assert connected["mode"] == "pty"
        terminal.type(b"echo $((40+2)); pwd\n")
        terminal.until_output(b"42\r\n")
        terminal.until_output(daemon.workdir.encode())
        assert state(daemon, identifier)["running"] is True
        assert state(daemon, identifier)["output_offset"] > 0


def test_the_exit_of_the_shell_is_told_and_closes(daemon: Daemon) -> None:
    with Terminal(daemon, make(daemon)) as terminal:
        terminal.until_text("connected")
        terminal.say(type="stdin", data="exit 5\n")
        assert terminal.until_text("exit")["exit_code"] == 5
        closed = terminal.until_closed().rcvd
        assert closed is not None
        assert closed.code == 1000


def test_a_command_may_be_given_instead_of_a_shell(daemon: Daemon) -> None:
    with Terminal(daemon, make(daemon, command="echo ran; exit 3")) as terminal:
        terminal.until_output(b"ran")
        assert terminal.until_text("exit")["exit_code"] == 3


def test_the_size_is_80_by_24_until_it_is_changed(daemon: Daemon) -> None:
    with Terminal(daemon, make(daemon)) as terminal:
        terminal.until_text("connected")
        terminal.type(b"stty size\n")
        terminal.until_output(b"24 80")
        terminal.say(type="resize", cols=132, rows=43)
        terminal.type(b"stty size\n")
        terminal.until_output(b"43 132")


def test_signals_reach_what_runs_in_the_foreground(daemon: Daemon) -> None:
    with Terminal(daemon, make(daemon)) as terminal:
        terminal.until_text("connected")
        program = (
            "trap 'echo got-$((1+1)); exit' INT; echo armed-$((1+1)); while :; do sleep 0.1; done"
        )
        terminal.type(f'sh -c "{program}"\n'.replace("$", "\\$").encode())
        terminal.until_output(b"armed-2")
        terminal.say(type="signal", signal="SIGINT")
        terminal.until_output(b"got-2")


def test_control_c_works_as_in_any_terminal(daemon: Daemon) -> None:
    with Terminal(daemon, make(daemon)) as terminal:
        terminal.until_text("connected")
        # The program itself says that it is in the foreground; the shell would say so too early.
        terminal.type(b"sh -c 'echo up-$((1+1)); exec sleep 1000'\n")
        terminal.until_output(b"up-2")
        terminal.type(b"\x03")
        terminal.until_output(b"^C")  # until then the terminal throws away what is typed
        terminal.type(b"echo back-$((1+1))\n")
        terminal.until_output(b"back-2")


def test_ping_is_answered_and_nonsense_is_named(daemon: Daemon) -> None:
    with Terminal(daemon, make(daemon)) as terminal:
        terminal.until_text("connected")
        for nonsense in ("{", "[]", '{"type":"dance"}', '{"type":"resize","cols":0,"rows":-1}'):
            terminal.connection.send(nonsense)
            assert terminal.until_text("error")["code"] == "INVALID_FRAME"
        for binary in (b"", b"\x09data"):
            terminal.connection.send(binary)
            assert terminal.until_text("error")["code"] == "INVALID_FRAME"
        terminal.say(type="signal", signal="SIGNOPE")
        assert terminal.until_text("error")["code"] == "INVALID_FRAME"
        terminal.say(type="ping")
        terminal.until_text("pong")


def test_the_shell_lives_on_and_what_was_missed_is_replayed(daemon: Daemon) -> None:
    identifier = make(daemon)
    go = f"{daemon.workdir}/go"
    with Terminal(daemon, identifier) as terminal:
        terminal.until_text("connected")
        wait = f"kept=yes; while [ ! -e {go} ]; do sleep 0.01; done; echo missed-$((1+1))\n"
        terminal.type(wait.encode())
        terminal.until_output(b"done")
    seen = state(daemon, identifier)["output_offset"]
    daemon.client.post("/command", json={"argv": ["touch", go]})
    eventually(lambda: state(daemon, identifier)["output_offset"] > seen)
    with Terminal(daemon, identifier, "since=0") as again:
        again.until_text("connected")
        while b"missed-2" not in again.output[REPLAY] + again.output[STDOUT]:
            again.receive()
        assert again.replay_offset == 0
        assert len(again.output[REPLAY]) > seen
        again.type(b"echo $kept-$((1+1))\n")
        again.until_output(b"yes-2")


def test_a_replay_from_the_end_is_empty(daemon: Daemon) -> None:
    identifier = make(daemon, command="echo once; sleep 1000")
    with Terminal(daemon, identifier) as terminal:
        terminal.until_output(b"once")
    end = state(daemon, identifier)["output_offset"]
    with Terminal(daemon, identifier, f"since={end}") as again:
        again.until_text("connected")
        assert again.replay_offset is None


def test_a_replay_that_is_too_old_says_where_it_begins(daemon: Daemon) -> None:
    identifier = make(
        daemon, command="head -c 3000000 /dev/zero | tr '\\0' x; echo END; sleep 1000"
    )
    with Terminal(daemon, identifier) as terminal:
        terminal.until_output(b"END")
    with Terminal(daemon, identifier, "since=0") as again:
        again.until_output(b"END", REPLAY)
        assert again.replay_offset is not None
        assert again.replay_offset >= 3_000_000 - (1 << 20)


def test_a_second_client_is_refused_unless_it_takes_over(daemon: Daemon) -> None:
    identifier = make(daemon)
    with Terminal(daemon, identifier) as first:
        first.until_text("connected")
        with pytest.raises(InvalidStatus) as refused:
            Terminal(daemon, identifier)
        assert refused.value.response.status_code == 409
        assert json.loads(refused.value.response.body or b"")["code"] == "ALREADY_CONNECTED"
        with Terminal(daemon, identifier, "takeover=1") as second:
            second.until_text("connected")
            closed = first.until_closed().rcvd
            assert closed is not None
            assert (closed.code, "TAKEN_OVER" in closed.reason) == (4001, True)
            second.type(b"echo mine-$((1+1))\n")
            second.until_output(b"mine-2")


def test_pipe_mode_keeps_the_outputs_apart_and_has_no_terminal(daemon: Daemon) -> None:
    command = "echo out; echo err >&2; [ -t 0 ] || echo no terminal"
    with Terminal(daemon, make(daemon, command=command), "pty=0") as terminal:
        assert terminal.until_text("connected")["mode"] == "pipe"
        assert terminal.until_text("exit")["exit_code"] == 0
        assert terminal.output[STDOUT] == b"out\nno terminal\n"
        assert terminal.output[STDERR] == b"err\n"


def test_deleting_a_terminal_ends_its_shell(daemon: Daemon) -> None:
    identifier = make(daemon)
    with Terminal(daemon, identifier) as terminal:
        terminal.until_text("connected")
        assert daemon.client.delete(f"/pty/{identifier}").status_code == 200
        terminal.until_closed()
    for method in ("GET", "DELETE"):
        answer = daemon.client.request(method, f"/pty/{identifier}")
        assert_error(answer, 404, "CONTEXT_NOT_FOUND")


def test_an_unknown_terminal_is_not_found(daemon: Daemon) -> None:
    with pytest.raises(InvalidStatus) as refused:
        Terminal(daemon, "nope")
    assert refused.value.response.status_code == 404


@pytest.mark.parametrize("query", ["since=-1", "since=x", "pty=2", "takeover=maybe"])
def test_a_query_that_makes_no_sense_is_refused(shared_daemon: Daemon, query: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        Terminal(shared_daemon, make(shared_daemon), query)
    assert refused.value.response.status_code == 400


def test_a_request_that_is_no_upgrade_is_refused(shared_daemon: Daemon) -> None:
    answer: httpx.Response = shared_daemon.client.get(f"/pty/{make(shared_daemon)}/ws")
    assert 400 <= answer.status_code < 500


def test_a_cwd_that_does_not_exist_is_refused(daemon: Daemon) -> None:
    answer = daemon.client.post("/pty", json={"cwd": "/does/not/exist"})
    assert answer.status_code == 400
