# SPDX-License-Identifier: Apache-2.0
"""One sandbox for each conversation: lazily made, kept alive, and ended with it."""

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from opensandbox import SandboxManagerSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models import SandboxFilter
from tests.harness.server import Server
from tests.harness.wait import eventually
from tests.mcp.agent import (
    WAIT_SECONDS,
    Agent,
    command,
    conversation,
    environment,
    http_process,
    over_http,
    over_stdio,
)

Connect = Callable[..., "contextlib.AbstractContextManager[Agent]"]


@pytest.fixture
def manager(server: Server) -> Iterator[SandboxManagerSync]:
    with SandboxManagerSync.create(server.sync_config) as made:
        yield made


def running(manager: SandboxManagerSync) -> set[str]:
    return {info.id for info in manager.list_sandbox_infos(SandboxFilter()).sandbox_infos}


def is_gone(manager: SandboxManagerSync, sandbox_id: str) -> bool:
    try:
        manager.get_sandbox_info(sandbox_id)
    except SandboxApiException as error:
        return error.status_code == 404
    return False


@contextlib.contextmanager
def by_http(server: Server, *flags: str) -> Iterator[Agent]:
    with http_process(server, *flags) as process, over_http(process) as agent:
        yield agent


def output(agent: Agent, shell: str) -> Any:
    done = agent.do("command_run", command=shell)
    return [message["text"] for message in done["logs"]["stdout"]]


@pytest.fixture(params=[over_stdio, by_http], ids=["stdio", "http"])
def connect(request: pytest.FixtureRequest) -> Connect:
    chosen: Connect = request.param
    return chosen


def test_the_first_call_makes_it_and_the_end_of_the_conversation_ends_it(
    connect: Connect, server: Server, manager: SandboxManagerSync
) -> None:
    before = running(manager)
    with connect(server, "--workspace", "--env", "COLOUR=blue") as agent:
        agent.portal.call(agent.client.list_tools)
        assert running(manager) == before
        assert output(agent, "export X=1; echo $COLOUR") == ["blue"]
        (made,) = running(manager) - before
        assert agent.do("sandbox_get_info")["id"] == made
        assert running(manager) - before == {made}
    eventually(lambda: is_gone(manager, made))


def test_many_first_calls_at_once_make_one(
    connect: Connect, server: Server, manager: SandboxManagerSync
) -> None:
    before = running(manager)
    with connect(server, "--workspace") as agent:
        calls = [agent.start("sandbox_get_info") for _ in range(8)]
        infos = [call.result(WAIT_SECONDS).structured_content for call in calls]
        assert len({info["id"] for info in infos if info}) == 1
        assert len(running(manager) - before) == 1


def test_tools_need_no_id_then(connect: Connect, server: Server) -> None:
    with connect(server, "--workspace") as agent:
        tools = agent.portal.call(agent.client.list_tools).tools
        names = {tool.name for tool in tools}
        assert not names & {"sandbox_create", "sandbox_connect", "sandbox_list"}
        assert "workspace_keep" in names
        asked = {name for tool in tools for name in tool.input_schema["properties"]}
        assert not asked & {"sandbox_id", "connect_if_missing"}
        resources = agent.portal.call(agent.client.list_resources).resources
        assert [str(one.uri) for one in resources] == ["sandbox://workspace/logs"]
        assert agent.read("sandbox://workspace/logs").mime_type == "text/plain"


def test_a_killed_one_is_made_anew(
    connect: Connect, server: Server, manager: SandboxManagerSync
) -> None:
    with connect(server, "--workspace") as agent:
        first = agent.do("sandbox_get_info")["id"]
        agent.do("sandbox_kill")
        assert is_gone(manager, first)
        second = agent.do("sandbox_get_info")["id"]
        manager.kill_sandbox(second)
        assert "SANDBOX_NOT_FOUND" in agent.refusal("command_run", command="true")
        assert agent.do("sandbox_get_info")["id"] not in {first, second}


def test_it_is_kept_when_told(
    connect: Connect, server: Server, manager: SandboxManagerSync
) -> None:
    with connect(server, "--workspace") as agent:
        kept = agent.do("workspace_keep")
        assert kept["is_kept"]
    with connect(server, "--workspace", "--keep") as agent:
        also = agent.do("sandbox_get_info")["id"]
    for sandbox_id in (kept["sandbox_id"], also):
        assert manager.get_sandbox_info(sandbox_id).status.state == "Running"
        manager.kill_sandbox(sandbox_id)


def test_it_lives_on_while_it_is_used(server: Server) -> None:
    with over_stdio(server, "--workspace", "--timeout", "6") as agent:
        first = agent.do("sandbox_get_info")
        expiry = first["expires_at"]
        eventually(lambda: agent.do("sandbox_get_info")["expires_at"] != expiry)
        assert agent.do("sandbox_get_info")["id"] == first["id"]


def test_one_that_nobody_uses_ends(server: Server, manager: SandboxManagerSync) -> None:
    with over_stdio(server, "--workspace", "--timeout", "2") as agent:
        made = agent.do("sandbox_get_info")["id"]
        eventually(lambda: is_gone(manager, made))
        assert agent.do("sandbox_get_info")["id"] != made


def test_each_conversation_over_http_has_its_own(
    server: Server, manager: SandboxManagerSync
) -> None:
    with http_process(server, "--workspace") as process:
        with over_http(process) as one:
            first = one.do("sandbox_get_info")["id"]
            with over_http(process, mode="legacy") as other:
                second = other.do("sandbox_get_info")["id"]
                assert first != second
            eventually(lambda: is_gone(manager, second))
            assert one.do("sandbox_get_info")["id"] == first
        eventually(lambda: is_gone(manager, first))


def test_a_client_that_vanishes_over_http_leaves_nothing_for_long(
    server: Server, manager: SandboxManagerSync
) -> None:
    with http_process(server, "--workspace", "--timeout", "2") as process:
        with over_http(process, terminates=False) as agent:
            made = agent.do("sandbox_get_info")["id"]
        eventually(lambda: is_gone(manager, made))


def test_the_end_of_the_http_server_ends_them(server: Server, manager: SandboxManagerSync) -> None:
    with (
        http_process(server, "--workspace") as process,
        over_http(process, terminates=False) as agent,
    ):
        made = agent.do("sandbox_get_info")["id"]
    assert is_gone(manager, made)


@pytest.mark.parametrize("how", ["close", "terminate", "interrupt"])
def test_the_process_ends_well_and_leaves_no_sandbox(
    server: Server, manager: SandboxManagerSync, how: str
) -> None:
    """Over stdio, with a command running: by end of input, SIGTERM and SIGINT."""
    before = running(manager)
    with subprocess.Popen(
        command("--workspace"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(server),
    ) as process:
        try:
            assert process.stdin is not None
            process.stdin.writelines(conversation("command_run", command="exec sleep 600"))
            process.stdin.flush()
            eventually(lambda: len(running(manager) - before) == 1)
            if how == "close":
                process.stdin.close()
            else:
                process.send_signal(signal.SIGTERM if how == "terminate" else signal.SIGINT)
            assert process.wait(WAIT_SECONDS) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
            assert process.stdout is not None
            assert all(line.startswith('{"') for line in process.stdout)
        finally:
            process.kill()
    assert running(manager) == before
