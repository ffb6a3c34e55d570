# SPDX-License-Identifier: Apache-2.0
"""Shell sessions: one living shell each."""

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.execd.events import Execution, assert_error, folded, frames, next_of
from tests.harness.execd import Daemon
from tests.harness.wait import eventually


@dataclass(frozen=True)
class Session:
    client: httpx.Client
    id: str

    def run(self, command: str, **fields: object) -> Execution:
        body = {"command": command, **fields}
        return folded(self.client.post(f"/session/{self.id}/run", json=body))

    def out(self, command: str, **fields: object) -> list[str]:
        return self.run(command, **fields).stdout


@pytest.fixture
def session(daemon: Daemon) -> Iterator[Session]:
    answer = daemon.client.post("/session", json={"cwd": daemon.workdir})
    assert answer.status_code == 200
    session = Session(daemon.client, answer.json()["session_id"])
    yield session
    daemon.client.delete(f"/session/{session.id}")


def test_the_init_text_is_the_session_id(session: Session) -> None:
    assert session.run("true").id == session.id


def test_a_session_may_be_made_with_an_empty_body(daemon: Daemon) -> None:
    answer = daemon.client.post("/session", headers={"content-length": "0"})
    assert answer.status_code == 200
    assert answer.json()["session_id"]


def test_the_cwd_of_a_session_is_made_when_missing(daemon: Daemon) -> None:
    wanted = f"{daemon.workdir}/made/for/it"
    answer = daemon.client.post("/session", json={"cwd": wanted})
    session = Session(daemon.client, answer.json()["session_id"])
    assert session.out("pwd") == [wanted]


def test_variables_functions_and_the_directory_survive(session: Session) -> None:
    session.run("plain=1; export exported=2; f() { echo f sees $plain $exported; }; mkdir d; cd d")
    assert session.out("f") == ["f sees 1 2"]
    assert session.out("basename $PWD") == ["d"]


def test_jobs_survive(session: Session) -> None:
    session.run("sleep 1000 & job=$!")
    assert session.run("kill -0 $job").exit_code == 0
    assert session.run("kill $job; wait $job").exit_code == 128 + 15


def test_cwd_of_a_run_stays_in_force(session: Session) -> None:
    session.run("mkdir -p sub")
    inside = session.out("pwd", cwd=session.out("pwd")[0] + "/sub")
    assert inside[0].endswith("/sub")
    assert session.out("pwd") == inside


def test_a_relative_cwd_of_a_run_starts_where_the_shell_is(session: Session) -> None:
    session.run("mkdir -p outer/inner; cd outer")
    assert session.out("basename $PWD", cwd="inner") == ["inner"]
    assert session.out("basename $PWD", cwd="..") == ["outer"]
    missing = session.run("echo not run", cwd="no/such")
    assert missing.error is not None
    assert "not run" not in missing.stdout


def test_stderr_is_merged_into_stdout_and_blank_lines_are_dropped(session: Session) -> None:
    execution = session.run("echo one; echo; echo two >&2")
    assert execution.stdout == ["one", "two"]
    assert execution.stderr == []


@pytest.mark.parametrize("code", [1, 7, 255])
def test_a_failing_run_has_its_exit_code(session: Session, code: int) -> None:
    execution = session.run(f"(exit {code})")
    assert execution.error is not None
    assert execution.error["ename"] == "CommandExecError"
    assert execution.error["evalue"] == str(code)


def test_after_exit_the_session_is_usable_with_directory_and_exports(session: Session) -> None:
    session.run("mkdir -p kept; cd kept; export exported=yes")
    assert session.run("exit 7").exit_code == 7
    assert session.out("basename $PWD; echo $exported") == ["kept", "yes"]


def test_a_shell_that_is_killed_is_replaced(session: Session) -> None:
    assert session.run("kill -KILL $$").error is not None
    assert session.out("echo back") == ["back"]


def test_exec_ends_the_shell_with_the_status_of_the_program(session: Session) -> None:
    assert session.run("exec sh -c 'exit 9'").exit_code == 9
    assert session.out("echo back") == ["back"]


@pytest.mark.parametrize(
    "attempt",
    [
        'echo \'{"type":"execution_complete"}\'; false',
        'printf \'\\n\\n{"type":"error"}\\n\\n\'; false',
        "for fd in 3 4 5 6 7 8 9 10 60 63 100 254 255; do echo 0 >&$fd; done 2>/dev/null; false",
        "trap 'exit 0' EXIT; false",
        "set -e; false",
        "set -o pipefail; false | true; false",
        "true() { return 1; }; printf() { :; }; echo() { :; }; false",
        "PROMPT_COMMAND='echo 0'; PS1='$(echo 0)'; false",
        "alias eval=true; unset -f command; false",
        "readonly status=0 code=0 rc=0 result=0 ret=0 exit_code=0; false",
    ],
)
def test_output_and_tricks_cannot_forge_the_exit_code(session: Session, attempt: str) -> None:
    """Whatever the text does, a run that ends with a failure is told as one."""
    execution = session.run(attempt)
    assert execution.error is not None, execution.events
    assert execution.exit_code != 0
    assert session.run("command true").exit_code == 0


def test_set_minus_e_ends_the_shell_and_not_the_session(session: Session) -> None:
    assert session.run("set -e; false; echo not reached").stdout == []
    assert session.out("echo back") == ["back"]


def test_text_that_does_not_parse_is_a_failed_run(session: Session) -> None:
    for text in ("if true; then", "'unclosed", ")", "cat <<EOF\nno end"):
        session.run(text)
        assert session.out("echo fine") == ["fine"], text
    assert session.run("if true; then").exit_code not in (0, None)


def test_a_run_does_not_read_what_belongs_to_the_next(session: Session) -> None:
    assert session.out("cat; read x; echo end") == ["end"]
    assert session.out("echo next") == ["next"]


def test_output_without_a_newline_at_the_end_is_complete(session: Session) -> None:
    assert session.out("printf abc") == ["abc"]


def test_a_timeout_kills_the_run_and_leaves_the_session_usable(session: Session) -> None:
    session.run("export kept=yes")
    execution = session.run("echo up; sleep 1000", timeout=300)
    assert execution.stdout == ["up"]
    assert execution.error is not None
    assert session.out("echo $kept") == ["yes"]


def test_interrupt_ends_a_run_and_leaves_the_session_usable(session: Session) -> None:
    path = f"/session/{session.id}/run"
    body = {"command": "echo up; sleep 1000"}
    with session.client.stream("POST", path, json=body) as response:
        events = frames(response)
        next_of(events, "stdout")
        query = {"id": session.id}
        assert session.client.delete("/command", params=query).status_code == 200
        next_of(events, "error")
    assert session.out("echo back") == ["back"]


def test_a_background_child_does_not_hold_the_run(session: Session) -> None:
    execution = session.run("sleep 1000 & child=$!; echo started")
    assert execution.stdout == ["started"]
    assert session.run("kill $child").exit_code == 0


def test_sessions_are_independent(daemon: Daemon) -> None:
    first, second = (
        Session(daemon.client, daemon.client.post("/session").json()["session_id"])
        for _ in range(2)
    )
    first.run("x=1; export y=2")
    assert second.out('echo "[$x$y]"') == ["[]"]


def test_deleting_a_session_ends_its_shell_and_jobs(daemon: Daemon) -> None:
    session = Session(daemon.client, daemon.client.post("/session").json()["session_id"])
    pids = session.out("sleep 1000 & echo $$; echo $!")
    assert daemon.client.delete(f"/session/{session.id}").status_code == 200
    probe = Session(daemon.client, daemon.client.post("/session").json()["session_id"])
    check = " && ".join(f"! kill -0 {pid} 2>/dev/null" for pid in pids)
    eventually(lambda: probe.run(check).exit_code == 0)
    assert_error(daemon.client.delete(f"/session/{session.id}"), 404, "CONTEXT_NOT_FOUND")


def test_an_unknown_session_cannot_run(daemon: Daemon) -> None:
    answer = daemon.client.post("/session/nope/run", json={"command": "true"})
    assert answer.status_code in (404, 500)
    assert answer.json()["code"] in ("RUNTIME_ERROR", "CONTEXT_NOT_FOUND")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"command": ""},
        {"command": "a\0b"},
        {"command": "true", "timeout": -1},
        [],
        {"command": 1},
    ],
    ids=str,
)
def test_a_run_that_breaks_a_rule_is_refused(session: Session, body: object) -> None:
    answer = session.client.post(f"/session/{session.id}/run", json=body)
    assert_error(answer, 400, "INVALID_REQUEST_BODY")


def test_runs_in_one_session_do_not_overlap(session: Session) -> None:
    path = f"/session/{session.id}/run"
    body = {"command": "echo up; sleep 0.3; echo first"}
    with session.client.stream("POST", path, json=body) as response:
        events = frames(response)
        next_of(events, "stdout")
        second = session.client.post(path, json={"command": "echo second"})
        rest = [event["text"] for event in events if event["type"] == "stdout"]
    assert rest == ["first"]
    # The second either waited for the first or was refused; it never ran in between.
    if second.status_code == 200:
        assert folded(second).stdout == ["second"]
    else:
        assert second.status_code in (409, 500)


@pytest.mark.parametrize("trick", ["set -n", "command() { :; }"])
def test_a_shell_that_cannot_tell_its_end_is_replaced(session: Session, trick: str) -> None:
    session.run("export KEPT=yes")
    lost = session.run(f"echo before; {trick}", timeout=60_000)
    assert lost.stdout == ["before"]
    assert lost.error is not None
    assert lost.error["evalue"] == "-1"
    assert "no longer tells" in lost.error["traceback"][0]
    assert session.out("echo $KEPT") == ["yes"]
