# SPDX-License-Identifier: Apache-2.0
"""Background commands: status, logs by cursor, interrupt."""

from datetime import datetime

import pytest

from tests.execd.events import assert_error, replay, run, start, status
from tests.harness.execd import Daemon
from tests.harness.wait import eventually

CURSOR = "EXECD-COMMANDS-TAIL-CURSOR"


def test_a_background_command_answers_at_once_and_goes_on(daemon: Daemon) -> None:
    execution = run(daemon.client, "exec sleep 1000", background=True)
    assert [event["type"] for event in execution.events] == ["init", "execution_complete"]
    running = status(daemon.client, execution.id)
    assert running["running"] is True
    assert running["id"] == execution.id
    assert running["content"] == "exec sleep 1000"
    assert running.get("exit_code") is None
    assert running.get("finished_at") is None
    assert daemon.client.delete("/command", params={"id": execution.id}).status_code == 200
    eventually(lambda: not status(daemon.client, execution.id)["running"])


def test_status_tells_how_and_when_a_command_ended(daemon: Daemon) -> None:
    identifier = start(daemon.client, "exit 9")
    replay(daemon.client, identifier)
    ended = status(daemon.client, identifier)
    assert ended["running"] is False
    assert ended["exit_code"] == 9
    assert ended["error"]
    began, finished = (datetime.fromisoformat(ended[k]) for k in ("started_at", "finished_at"))
    assert began.tzinfo is not None
    assert began <= finished


def test_status_knows_foreground_commands_too(daemon: Daemon) -> None:
    identifier = run(daemon.client, "exit 3").id
    assert status(daemon.client, identifier)["exit_code"] == 3


def test_logs_are_both_outputs_in_order_from_a_cursor(daemon: Daemon) -> None:
    identifier = start(daemon.client, "echo one; echo two >&2; echo three")
    replay(daemon.client, identifier)
    whole = daemon.client.get(f"/command/{identifier}/logs")
    assert whole.status_code == 200
    assert whole.headers["content-type"].startswith("text/plain")
    assert sorted(whole.text.split()) == ["one", "three", "two"]
    assert whole.headers[CURSOR] == str(len(whole.content))
    rest = daemon.client.get(f"/command/{identifier}/logs", params={"cursor": "4"})
    assert rest.content == whole.content[4:]
    nothing = daemon.client.get(
        f"/command/{identifier}/logs", params={"cursor": whole.headers[CURSOR]}
    )
    assert nothing.content == b""
    assert nothing.headers[CURSOR] == whole.headers[CURSOR]


def test_the_cursor_grows_as_a_running_command_writes(daemon: Daemon) -> None:
    go = f"{daemon.workdir}/go"
    identifier = start(
        daemon.client, f"echo first; while [ ! -e {go} ]; do sleep 0.01; done; echo second"
    )
    path = f"/command/{identifier}/logs"
    eventually(lambda: daemon.client.get(path).content)
    first = daemon.client.get(path)
    assert first.text == "first\n"
    run(daemon.client, f"touch {go}")
    replay(daemon.client, identifier)
    second = daemon.client.get(path, params={"cursor": first.headers[CURSOR]})
    assert second.text == "second\n"


@pytest.mark.parametrize("cursor", ["-1", "x", "1.5", "", "99999999999999999999"])
def test_a_cursor_that_is_no_count_is_refused(shared_daemon: Daemon, cursor: str) -> None:
    identifier = start(shared_daemon.client, "true")
    for route in ("logs", "output"):
        answer = shared_daemon.client.get(
            f"/command/{identifier}/{route}", params={"cursor": cursor}
        )
        assert_error(answer, 400, "INVALID_REQUEST_BODY")


def test_logs_of_a_foreground_command_are_refused_and_of_an_unknown_one_not_found(
    daemon: Daemon,
) -> None:
    identifier = run(daemon.client, "true").id
    answer = daemon.client.get(f"/command/{identifier}/logs")
    assert_error(answer, 400, "INVALID_REQUEST_BODY")
    for route in (f"/command/{'f' * 32}/logs", f"/command/status/{'f' * 32}"):
        assert_error(daemon.client.get(route), 404, "INVALID_REQUEST_BODY")


def test_a_background_command_that_cannot_start_has_status_255(daemon: Daemon) -> None:
    body = {"argv": ["no-such-program"], "background": True}
    answer = daemon.client.post("/command", json=body)
    identifier = answer.text.split('"text":"')[1].split('"')[0]
    assert status(daemon.client, identifier)["exit_code"] == 255


def test_a_timeout_ends_a_background_command(daemon: Daemon) -> None:
    identifier = start(daemon.client, "sleep 1000", timeout=100)
    execution = replay(daemon.client, identifier)
    assert execution.error is not None
    assert status(daemon.client, identifier)["running"] is False


def test_interrupt_without_id_of_unknown_and_of_ended_commands_is_refused(daemon: Daemon) -> None:
    assert_error(daemon.client.delete("/command"), 400, "MISSING_QUERY")
    unknown = daemon.client.delete("/command", params={"id": "0" * 32})
    assert_error(unknown, 500, "RUNTIME_ERROR")
    identifier = run(daemon.client, "true").id
    ended = daemon.client.delete("/command", params={"id": identifier})
    assert_error(ended, 500, "RUNTIME_ERROR")


def test_interrupt_reaches_the_whole_group_and_kills_what_ignores_it(daemon: Daemon) -> None:
    identifier = start(daemon.client, "trap '' TERM; echo up; while :; do sleep 1; done")
    path = f"/command/{identifier}/logs"
    eventually(lambda: daemon.client.get(path).content)
    assert daemon.client.delete("/command", params={"id": identifier}).status_code == 200
    execution = replay(daemon.client, identifier)  # ends after the grace, by SIGKILL
    assert execution.exit_code == -1


def test_stdin_of_a_background_command_is_empty(daemon: Daemon) -> None:
    identifier = start(daemon.client, "cat; echo end")
    replay(daemon.client, identifier)
    assert daemon.client.get(f"/command/{identifier}/logs").text == "end\n"
