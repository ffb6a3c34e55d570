# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_commands.py by scripts/unasync.py; change it there.
"""Commands and sessions, in a real execd."""

from datetime import timedelta

import pytest

from opensandbox import SandboxSync
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxConnectionException,
    SandboxInternalException,
)
from opensandbox.models import ExecutionHandlersSync
from opensandbox.models.execd import (
    ExecutionComplete,
    ExecutionError,
    ExecutionInit,
    OutputMessage,
    RunCommandOpts,
)
from tests.harness.lifecycle import Answer, StandIn


def test_a_command_gives_its_output_line_by_line(sandbox: SandboxSync) -> None:
    execution = sandbox.commands.run("echo one; echo two; echo oops >&2")
    assert [message.text for message in execution.logs.stdout] == ["one", "two"]
    assert [(m.text, m.is_error) for m in execution.logs.stderr] == [("oops", True)]
    assert execution.text == "one\ntwo"
    assert execution.exit_code == 0
    assert execution.id
    assert execution.complete is not None
    assert execution.error is None


def test_a_failing_command_is_no_exception(sandbox: SandboxSync) -> None:
    execution = sandbox.commands.run("exit 3")
    assert execution.exit_code == 3
    assert execution.complete is None
    assert execution.error is not None
    assert (execution.error.name, execution.error.value) == ("CommandExecError", "3")


def test_a_list_runs_without_a_shell(sandbox: SandboxSync) -> None:
    execution = sandbox.commands.run(["printf", "%s|", "two words", "$HOME", "*"])
    assert execution.text == "two words|$HOME|*|"


def test_options_reach_the_command(sandbox: SandboxSync, workdir: str) -> None:
    opts = RunCommandOpts(working_directory=workdir, envs={"COLOUR": "green"})
    execution = sandbox.commands.run("pwd; echo $COLOUR", opts=opts)
    assert execution.text == f"{workdir}\ngreen"


def test_a_command_is_ended_at_its_timeout(sandbox: SandboxSync) -> None:
    opts = RunCommandOpts(timeout=timedelta(milliseconds=50))
    execution = sandbox.commands.run("echo before; sleep 600", opts=opts)
    assert execution.text == "before"
    assert execution.exit_code == -1


def test_handlers_hear_everything_in_order(sandbox: SandboxSync) -> None:
    heard: list[str] = []

    def on_init(init: ExecutionInit) -> None:
        heard.append(f"init {bool(init.id)}")

    def on_output(message: OutputMessage) -> None:
        heard.append(message.text)

    def on_error(error: ExecutionError) -> None:
        heard.append(f"error {error.value}")

    def on_complete(complete: ExecutionComplete) -> None:
        heard.append(f"complete {complete.execution_time_in_millis >= 0}")

    handlers = ExecutionHandlersSync(
        on_init=on_init,
        on_stdout=on_output,
        on_stderr=on_output,
        on_error=on_error,
        on_execution_complete=on_complete,
        skip_accumulation=True,
    )
    execution = sandbox.commands.run("echo a; sleep 0.1; echo b >&2", handlers=handlers)
    assert heard == ["init True", "a", "b", "complete True"]
    assert (execution.logs.stdout, execution.logs.stderr) == ([], [])
    heard.clear()
    sandbox.commands.run("exit 2", handlers=handlers)
    assert heard == ["init True", "error 2"]


def test_a_background_command_is_followed_by_its_id(sandbox: SandboxSync) -> None:
    opts = RunCommandOpts(background=True)
    execution = sandbox.commands.run("echo one; echo two; exec sleep 600", opts=opts)
    assert execution.id is not None
    assert execution.exit_code is None
    status = sandbox.commands.get_command_status(execution.id)
    assert status.running
    seen = ""

    def interrupt_after_two(message: OutputMessage) -> None:
        nonlocal seen
        seen += message.text
        if seen == "one\ntwo\n":
            sandbox.commands.interrupt(execution.id or "")

    handlers = ExecutionHandlersSync(on_stdout=interrupt_after_two)
    replay = sandbox.commands.replay(execution.id, follow=True, handlers=handlers)
    assert replay.stdout == b"one\ntwo\n"
    logs = sandbox.commands.get_background_command_logs(execution.id)
    assert (logs.content, logs.cursor) == ("one\ntwo\n", 8)
    rest = sandbox.commands.get_background_command_logs(execution.id, cursor=4)
    assert rest.content == "two\n"
    status = sandbox.commands.get_command_status(execution.id)
    assert not status.running
    assert status.finished_at is not None


def test_a_replay_gives_the_exact_bytes_from_a_cursor(sandbox: SandboxSync) -> None:
    execution = sandbox.commands.run(r"printf 'a\377b\nc'; exit 4")
    assert execution.id is not None
    replay = sandbox.commands.replay(execution.id, follow=True)
    assert replay.stdout == b"a\xffb\nc"
    assert replay.execution.exit_code == 4
    assert (sandbox.commands.replay(execution.id, cursor=4)).stdout == b"c"


def test_a_session_remembers_directory_and_variables(sandbox: SandboxSync, workdir: str) -> None:
    session = sandbox.commands.create_session(working_directory=workdir)
    sandbox.commands.run_in_session(session, "mkdir -p deep; cd deep; export COLOUR=green")
    execution = sandbox.commands.run_in_session(session, "pwd; echo $COLOUR")
    assert execution.text == f"{workdir}/deep\ngreen"
    failed = sandbox.commands.run_in_session(session, "exit 7")
    assert failed.exit_code == 7
    sandbox.commands.delete_session(session)
    with pytest.raises(SandboxApiException):
        sandbox.commands.delete_session(session)


@pytest.mark.parametrize("value", ["plain", "it's $HOME", 'q"uote \\ \n two', "$(rm) `x` # !"])
def test_a_variable_set_once_is_there_for_every_later_command(
    sandbox: SandboxSync, value: str
) -> None:
    if "'" in value:
        value = value.replace("$", "")  # a value with a single quote is expanded by the daemon
    sandbox.commands.set_env("SET_BY_TEST", value)
    execution = sandbox.commands.run(["sh", "-c", 'printf %s "$SET_BY_TEST"'])
    assert execution.text == value


@pytest.mark.parametrize("command", ["", " ", [], [""], ["a\0b"]])
def test_a_command_that_is_none_is_refused(
    sandbox: SandboxSync, command: str | list[str]
) -> None:
    with pytest.raises(InvalidArgumentException):
        sandbox.commands.run(command)


def test_an_unknown_command_is_an_error(sandbox: SandboxSync) -> None:
    with pytest.raises(SandboxApiException) as caught:
        sandbox.commands.get_command_status("nobody")
    assert caught.value.status_code == 404
    with pytest.raises(SandboxApiException):
        sandbox.commands.run("true", opts=RunCommandOpts(working_directory="/no/such"))


def test_an_answer_that_is_no_event_stream_is_refused(standin: StandIn) -> None:
    standin.execd = {"endpoint": standin.domain}
    sandbox = SandboxSync.create("image", skip_health_check=True)
    standin.answers.append(Answer(200, {"hello": "there"}, {"Content-Type": "application/json"}))
    with pytest.raises(SandboxInternalException):
        sandbox.commands.run("true")
    sandbox.close()


def test_a_command_is_never_sent_twice(standin: StandIn) -> None:
    standin.execd = {"endpoint": standin.domain}
    sandbox = SandboxSync.create("image", skip_health_check=True)
    standin.answers += [Answer(503, {"code": "UNKNOWN", "message": "busy"}), Answer(0, is_cut=True)]
    with pytest.raises(SandboxApiException):
        sandbox.commands.run("true")
    with pytest.raises(SandboxConnectionException):
        sandbox.commands.run("true")
    assert len(standin.asked("POST", "/command")) == 2
    sandbox.close()
