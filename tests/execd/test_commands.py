# SPDX-License-Identifier: Apache-2.0
"""Foreground commands: how they are started and how they end."""

import secrets
import signal

import pytest

from tests.execd.events import assert_error, next_of, run, run_argv, status, streaming
from tests.harness.execd import Daemon
from tests.harness.wait import eventually


def test_echo_gives_init_one_line_and_complete(daemon: Daemon) -> None:
    execution = run(daemon.client, "echo hi")
    assert [event["type"] for event in execution.events] == [
        "init",
        "stdout",
        "execution_complete",
    ]
    assert execution.stdout == ["hi"]
    assert len(execution.id) == 32
    assert int(execution.id, 16) >= 0
    assert execution.terminal["execution_time"] >= 0


@pytest.mark.parametrize("code", [1, 7, 126, 255])
def test_an_exit_code_is_the_value_of_the_error(shared_daemon: Daemon, code: int) -> None:
    execution = run(shared_daemon.client, f"echo before; exit {code}")
    assert execution.stdout == ["before"]
    assert execution.error == {
        "ename": "CommandExecError",
        "evalue": str(code),
        "traceback": [f"exit status {code}"],
    }


def test_a_command_killed_by_a_signal_ends_with_minus_one(daemon: Daemon) -> None:
    execution = run(daemon.client, "kill -TERM $$")
    assert execution.error is not None
    assert execution.error["evalue"] == "-1"


def test_output_is_one_event_for_each_line(daemon: Daemon) -> None:
    execution = run(daemon.client, r"printf 'one\n\ntwo\rthree\r\nlast'")
    assert execution.stdout == ["one", "\n", "two", "three", "last"]


def test_stdout_and_stderr_are_told_apart(daemon: Daemon) -> None:
    execution = run(daemon.client, "echo out; echo err >&2; echo out again")
    assert execution.stdout == ["out", "out again"]
    assert execution.stderr == ["err"]


def test_output_arrives_while_the_command_runs(daemon: Daemon) -> None:
    with streaming(
        daemon.client, command="echo early; read line; echo $line", stdin=True
    ) as events:
        identifier = next_of(events, "init")["text"]
        assert next_of(events, "stdout")["text"] == "early"
        assert status(daemon.client, identifier)["running"] is True
        answer = daemon.client.post(f"/command/{identifier}/stdin", content=b"late\n")
        assert answer.status_code == 200
        assert next_of(events, "stdout")["text"] == "late"
        next_of(events, "execution_complete")


def test_text_that_some_clients_take_for_line_ends_stays_in_its_line(daemon: Daemon) -> None:
    text = "a\u0085b\u2028c\u2029d"
    execution = run_argv(daemon.client, "printf", "%s\\n", text)
    assert execution.stdout == [text]


def test_bytes_that_are_not_utf_8_become_replacement_characters(daemon: Daemon) -> None:
    execution = run(daemon.client, r"printf 'a\377b\n'")
    assert execution.stdout == ["a\ufffdb"]


def test_argv_is_not_seen_by_a_shell(daemon: Daemon) -> None:
    execution = run_argv(daemon.client, "echo", "$HOME; `id`", "*")
    assert execution.stdout == ["$HOME; `id` *"]


def test_shell_text_longer_than_an_argument_may_be_runs(daemon: Daemon) -> None:
    filler = "x" * 300_000
    execution = run(daemon.client, f": {filler}\necho done")
    assert execution.stdout == ["done"]


def test_a_program_that_does_not_exist_is_an_error_event_with_the_reason(daemon: Daemon) -> None:
    execution = run_argv(daemon.client, "no-such-program")
    assert execution.error is not None
    assert "no-such-program" in execution.error["evalue"]
    assert execution.exit_code is None
    assert status(daemon.client, execution.id)["running"] is False


def test_cwd_is_where_the_command_runs(daemon: Daemon) -> None:
    run(daemon.client, f"mkdir {daemon.workdir}/sub")
    assert run(daemon.client, "pwd", cwd=f"{daemon.workdir}/sub").stdout == [
        f"{daemon.workdir}/sub"
    ]
    assert run(daemon.client, "pwd", cwd="~/sub").stdout == [f"{daemon.workdir}/sub"]
    envs = {"BASE": daemon.workdir, "NAME": "sub"}
    assert run(daemon.client, "pwd", cwd="$BASE/${NAME}", envs=envs).stdout == [
        f"{daemon.workdir}/sub"
    ]


@pytest.mark.parametrize("cwd", ["/does/not/exist", "$UNSET_VARIABLE/x", "/dev/null", "a\0b"])
def test_a_cwd_that_is_no_directory_is_refused(daemon: Daemon, cwd: str) -> None:
    answer = daemon.client.post("/command", json={"command": "true", "cwd": cwd})
    assert_error(answer, 400, "INVALID_REQUEST_BODY")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"command": ""},
        {"argv": []},
        {"argv": [""]},
        {"argv": ["echo", "a\0b"]},
        {"command": "true", "argv": ["true"]},
        {"command": 5},
        {"command": "true", "timeout": -1},
        {"command": "true", "timeout": "soon"},
        {"command": "true", "timeout": 1.5},
        {"command": "true", "gid": 5},
        {"command": "true", "uid": -1},
        {"command": "true", "uid": 4294967295},
        {"command": "true", "uid": 1, "gid": 4294967296},
        {"command": "true", "envs": {"A=B": "c"}},
        {"command": "true", "envs": {"": "c"}},
        {"command": "true", "envs": {"A": "b\0c"}},
        {"command": "true", "envs": ["A=b"]},
        {"command": "true", "background": "yes"},
    ],
    ids=str,
)
def test_a_body_that_breaks_a_rule_is_refused(shared_daemon: Daemon, body: object) -> None:
    assert_error(shared_daemon.client.post("/command", json=body), 400, "INVALID_REQUEST_BODY")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"x"', b"{}{}", b"\xff"], ids=repr)
def test_a_body_that_is_not_json_is_refused(shared_daemon: Daemon, content: bytes) -> None:
    assert_error(
        shared_daemon.client.post("/command", content=content), 400, "INVALID_REQUEST_BODY"
    )


def test_a_timeout_kills_the_whole_group(daemon: Daemon) -> None:
    pid_file = f"{daemon.workdir}/child"
    execution = run(
        daemon.client,
        f"trap '' TERM; sleep 1000 & echo $! > {pid_file}; echo started; wait",
        timeout=300,
    )
    assert execution.stdout == ["started"]
    assert execution.error is not None
    assert execution.error["ename"] == "CommandExecError"
    child = run(daemon.client, f"cat {pid_file}").stdout[0]
    eventually(lambda: run(daemon.client, f"kill -0 {child} 2>/dev/null").exit_code != 0)


def test_a_child_that_keeps_the_output_open_does_not_hold_the_stream(daemon: Daemon) -> None:
    # A stream that the child holds is given up by the client after 30 seconds, which is an error.
    execution = run(daemon.client, "sleep 1000 & echo $!; exit 0")
    assert execution.exit_code == 0
    assert run(daemon.client, f"kill {execution.stdout[0]}").exit_code == 0


def test_interrupt_ends_a_foreground_command(daemon: Daemon) -> None:
    with streaming(daemon.client, command="echo up; exec sleep 1000") as events:
        identifier = next_of(events, "init")["text"]
        next_of(events, "stdout")
        assert daemon.client.delete("/command", params={"id": identifier}).status_code == 200
        assert next_of(events, "error")["error"]["evalue"] == "-1"


def test_a_command_outlives_a_client_that_goes_away(daemon: Daemon) -> None:
    with streaming(daemon.client, command="echo up; read line; echo $line", stdin=True) as events:
        identifier = next_of(events, "init")["text"]
        next_of(events, "stdout")
    assert status(daemon.client, identifier)["running"] is True
    path = f"/command/{identifier}/stdin"
    assert daemon.client.post(path, content=b"later\n").status_code == 200
    eventually(lambda: not status(daemon.client, identifier)["running"])
    assert status(daemon.client, identifier)["exit_code"] == 0


def test_standard_input_is_empty_unless_asked_for(daemon: Daemon) -> None:
    execution = run(daemon.client, "cat; echo end")
    assert execution.stdout == ["end"]


def test_stdin_is_written_in_pieces_and_closed(daemon: Daemon) -> None:
    with streaming(daemon.client, argv=["cat"], stdin=True) as events:
        path = f"/command/{next_of(events, 'init')['text']}/stdin"
        daemon.client.post(path, content=b"one\n").raise_for_status()
        assert next_of(events, "stdout")["text"] == "one"
        daemon.client.post(path, content=b"two\n", params={"close": "true"}).raise_for_status()
        assert next_of(events, "stdout")["text"] == "two"
        next_of(events, "execution_complete")
        after = daemon.client.post(path, content=b"three\n")
    assert_error(after, 400, "INVALID_REQUEST_BODY")


def test_stdin_of_a_command_without_one_or_of_no_command_is_refused(daemon: Daemon) -> None:
    identifier = run(daemon.client, "true").id
    answer = daemon.client.post(f"/command/{identifier}/stdin", content=b"x")
    assert_error(answer, 400, "INVALID_REQUEST_BODY")
    answer = daemon.client.post(f"/command/{'0' * 32}/stdin", content=b"x")
    assert_error(answer, 404, "INVALID_REQUEST_BODY")


def test_signals_a_program_gets_are_as_a_shell_leaves_them(daemon: Daemon) -> None:
    """A daemon that ignores SIGPIPE or blocks signals must not hand that down."""
    execution = run(daemon.client, "grep -E '^Sig(Ign|Blk)' /proc/self/status")
    masks = dict(line.split(":\t") for line in execution.stdout)
    assert masks["SigBlk"] == "0" * 16
    assert int(masks["SigIgn"], 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_a_client_may_choose_the_id_and_use_it_once(daemon: Daemon) -> None:
    identifier = secrets.token_hex(16)
    assert run(daemon.client, "echo once", id=identifier).id == identifier
    assert status(daemon.client, identifier)["exit_code"] == 0
    again = daemon.client.post("/command", json={"command": "echo twice", "id": identifier})
    assert_error(again, 409, "INVALID_REQUEST_BODY")
    for wrong in ("", None):
        assert run(daemon.client, "true", id=wrong).id != identifier
    for wrong in ("x", "0" * 31, "A" * 32, "../" + "0" * 29):
        answer = daemon.client.post("/command", json={"command": "true", "id": wrong})
        assert_error(answer, 400, "INVALID_REQUEST_BODY")
