# SPDX-License-Identifier: Apache-2.0
"""Commands and sessions by tools: output, progress, cancellation, reading on."""

import subprocess
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from opensandbox import SandboxSync
from tests.harness.server import Server
from tests.harness.wait import eventually
from tests.mcp.agent import WAIT_SECONDS, Agent, command, conversation, environment, wait_until_gone

HELD = "echo started; while [ -e {path} ]; do sleep 0.05; done; echo released"
"""Runs until a file is removed; on the fake runtime it is one of this machine's."""


def lines(execution: Any, stream: str = "stdout") -> list[str]:
    return [message["text"].rstrip("\n") for message in execution["logs"][stream]]


def status_of(agent: Agent, sandbox_id: str, execution_id: str) -> Any:
    return agent.do("command_status", sandbox_id=sandbox_id, execution_id=execution_id)


def wait_for_end(agent: Agent, sandbox_id: str, execution_id: str) -> Any:
    """Wait until a command has ended; a background command's log tells."""
    for _ in range(200):
        status = status_of(agent, sandbox_id, execution_id)
        if not status["running"]:
            return status
        agent.do("command_run", sandbox_id=sandbox_id, command="sleep 0.1")
    raise AssertionError("it never ended")


def test_a_command_tells_its_output_and_exit_code(agent: Agent, sandbox_id: str) -> None:
    done = agent.do("command_run", sandbox_id=sandbox_id, command="echo out; echo err >&2; exit 3")
    assert (lines(done), lines(done, "stderr"), done["exit_code"]) == (["out"], ["err"], 3)
    assert done["error"]["value"] == "3"
    assert done["note"] is None


def test_a_command_has_a_directory_variables_and_a_timeout(
    agent: Agent, sandbox_id: str, work: str
) -> None:
    done = agent.do(
        "command_run",
        sandbox_id=sandbox_id,
        command="pwd; echo $SHAPE; exec sleep 600",
        working_directory=work,
        env={"SHAPE": "round"},
        timeout_seconds=0.5,
    )
    assert lines(done) == [work, "round"]
    assert done["error"] is not None


def test_long_output_is_cut_and_can_be_read_on(agent: Agent, sandbox_id: str) -> None:
    done = agent.do("command_run", sandbox_id=sandbox_id, command="seq 1 40000")
    shown = lines(done)
    assert (shown[0], shown[-1]) == ("1", "40000")
    assert sum(map(len, shown)) < 40_000
    assert done["id"] in done["note"]
    assert "command_output" in done["note"]
    whole, offset = "", 0
    while True:
        page = agent.do(
            "command_output", sandbox_id=sandbox_id, execution_id=done["id"], offset=offset
        )
        assert (page["offset"], page["running"], page["exit_code"]) == (offset, False, 0)
        whole, offset = whole + page["content"], page["next_offset"]
        if page["note"] is None:
            break
    assert offset == page["size"]
    assert whole.split() == [str(number) for number in range(1, 40_001)]


def test_one_endless_line_is_cut_too(agent: Agent, sandbox_id: str) -> None:
    done = agent.do(
        "command_run", sandbox_id=sandbox_id, command="head -c 200000 /dev/zero | tr '\\0' x >&2"
    )
    (line,) = lines(done, "stderr")
    assert len(line) < 40_000
    assert "characters left out" in line
    assert "stderr" in done["note"]
    page = agent.do(
        "command_output", sandbox_id=sandbox_id, execution_id=done["id"], stream="stderr"
    )
    assert page["size"] == 200_000


def test_a_background_command_is_followed_by_cursor(
    agent: Agent, sandbox_id: str, tmp_path: Path
) -> None:
    held = tmp_path / "held"
    held.touch()
    shell = HELD.format(path=held)
    began = agent.do("command_run", sandbox_id=sandbox_id, command=shell, background=True)
    follow = {"sandbox_id": sandbox_id, "execution_id": began["id"], "wait_seconds": 20}
    page = agent.do("command_logs", **follow)
    assert (page["content"], page["running"]) == ("started\n", True)
    waiting = agent.start("command_logs", **follow, cursor=page["cursor"])
    held.unlink()
    result = waiting.result(WAIT_SECONDS).structured_content
    assert result is not None
    assert result["content"] == "released\n"
    assert wait_for_end(agent, sandbox_id, began["id"])["exit_code"] == 0


def test_a_wait_for_news_is_bounded(agent: Agent, sandbox_id: str) -> None:
    began = agent.do(
        "command_run", sandbox_id=sandbox_id, command="exec sleep 600", background=True
    )
    page = agent.do(
        "command_logs", sandbox_id=sandbox_id, execution_id=began["id"], wait_seconds=0.2
    )
    assert (page["content"], page["running"]) == ("", True)
    assert agent.do("command_interrupt", sandbox_id=sandbox_id, execution_id=began["id"]) == {
        "status": "interrupted"
    }
    assert wait_for_end(agent, sandbox_id, began["id"])["exit_code"] != 0


def test_a_long_command_reports_its_progress(agent: Agent, sandbox_id: str, tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    agent.progress.clear()
    agent.reported.clear()
    running = agent.start("command_run", sandbox_id=sandbox_id, command=HELD.format(path=held))
    assert agent.reported.wait(WAIT_SECONDS)
    assert "last line: started" in agent.progress[-1]
    held.unlink()
    done = running.result(WAIT_SECONDS).structured_content
    assert lines(done) == ["started", "released"]


def in_a_command(agent: Agent, sandbox_id: str, shell: str) -> Any:
    return agent.start("command_run", sandbox_id=sandbox_id, command=shell)


def in_a_session(agent: Agent, sandbox_id: str, shell: str) -> Any:
    session = agent.do("session_create", sandbox_id=sandbox_id)["session_id"]
    return agent.start("session_run", sandbox_id=sandbox_id, session_id=session, command=shell)


@pytest.mark.parametrize("start", [in_a_command, in_a_session])
def test_a_cancelled_call_interrupts_its_command(
    agent: Agent, sandbox_id: str, tmp_path: Path, start: Callable[[Agent, str, str], Any]
) -> None:
    pid_file = tmp_path / "pid"
    agent.reported.clear()
    running = start(agent, sandbox_id, f"echo $$ > {pid_file}; echo ready; exec sleep 600")
    assert agent.reported.wait(WAIT_SECONDS)
    pid = int(pid_file.read_text())
    running.cancel()
    with pytest.raises(CancelledError):
        running.result(WAIT_SECONDS)
    wait_until_gone(pid)


def test_a_client_that_vanishes_takes_its_command_along(server: Server, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    shell = f"echo $$ > {pid_file}; mv {pid_file} {pid_file}.whole; exec sleep 600"
    with SandboxSync.create("host", connection_config=server.sync_config) as sandbox:
        arguments = {"sandbox_id": sandbox.id, "command": shell, "connect_if_missing": True}
        process = subprocess.Popen(
            command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment(server),
        )
        assert process.stdin is not None
        try:
            with process.stdin as talk:
                talk.writelines(conversation("command_run", **arguments))
                talk.flush()
                eventually(Path(f"{pid_file}.whole").exists)
            assert process.wait(WAIT_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
        wait_until_gone(int(Path(f"{pid_file}.whole").read_text()))
        sandbox.kill()


def test_a_command_is_fed_by_its_standard_input(agent: Agent, sandbox_id: str) -> None:
    began = agent.do(
        "command_run",
        sandbox_id=sandbox_id,
        command="read first; echo got $first; cat",
        background=True,
        stdin=True,
    )
    here = {"sandbox_id": sandbox_id, "execution_id": began["id"]}
    assert "command_write_stdin" in began["note"]
    assert agent.do("command_write_stdin", **here, data="one\n") == {"status": "written"}
    page = agent.do("command_output", **here, wait_seconds=20)
    assert (page["content"], page["running"]) == ("got one\n", True)
    agent.do("command_write_stdin", **here, data="two\n", close=True)
    assert wait_for_end(agent, sandbox_id, began["id"])["exit_code"] == 0
    rest = agent.do("command_output", **here, offset=page["next_offset"])
    assert (rest["content"], rest["running"]) == ("two\n", False)


def test_a_fed_command_that_cannot_start_says_so(agent: Agent, sandbox_id: str) -> None:
    fed = {"sandbox_id": sandbox_id, "command": "cat", "background": True, "stdin": True}
    refused = agent.refusal("command_run", **fed, working_directory="/no/such/directory")
    assert refused.startswith("[")
    assert "background=true" in agent.refusal("command_run", **(fed | {"background": False}))


def test_a_session_keeps_its_state(agent: Agent, sandbox_id: str, work: str) -> None:
    session = agent.do("session_create", sandbox_id=sandbox_id, working_directory=work)
    here = {"sandbox_id": sandbox_id, "session_id": session["session_id"]}
    agent.do("session_run", **here, command="mkdir -p deep; cd deep; x=42")
    done = agent.do("session_run", **here, command="echo $x $PWD")
    assert lines(done) == [f"42 {work}/deep"]
    assert agent.do("session_delete", **here) == {"status": "deleted"}
    assert "no session has the id" in agent.refusal("session_run", **here, command="true")
