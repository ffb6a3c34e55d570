# SPDX-License-Identifier: Apache-2.0
"""The same on the embedded runtime, where a sandbox is isolated for real."""

from collections.abc import Iterator

import pytest

from tests.harness.server import Server, shared_server
from tests.mcp.agent import http_process, over_http, over_stdio


@pytest.fixture(scope="module")
def embedded() -> Iterator[Server]:
    """An OpenSandbox server on the embedded runtime."""
    with shared_server("oci") as started:
        yield started


def test_a_workspace_is_isolated_and_keeps_its_files(embedded: Server) -> None:
    with over_stdio(embedded, "--workspace") as agent:
        agent.do("file_write", path="/workspace/note.txt", content="kept")
        done = agent.do(
            "command_run", command="cat note.txt; echo; ls /root", working_directory="/workspace"
        )
        assert done["logs"]["stdout"][0]["text"] == "kept"
        assert agent.read("sandbox://workspace/files/workspace/note.txt").text == "kept"
        assert agent.do("sandbox_pause") == {"status": "paused"}
        assert agent.do("sandbox_resume") == {"status": "resumed"}
        assert agent.do("file_read", path="/workspace/note.txt")["content"] == "kept"


def test_two_conversations_do_not_see_each_other(embedded: Server) -> None:
    with (
        http_process(embedded, "--workspace") as process,
        over_http(process) as one,
        over_http(process) as other,
    ):
        one.do("file_write", path="/workspace/secret", content="mine")
        assert "FILE_NOT_FOUND" in other.refusal("file_read", path="/workspace/secret")


def test_python_runs_in_a_sandbox_by_id(embedded: Server) -> None:
    with over_stdio(embedded) as agent:
        made = agent.do("sandbox_create", image="host", resource={"cpu": "1", "memory": "512Mi"})
        here = {"sandbox_id": made["sandbox_id"]}
        done = agent.do("command_run", **here, command="python3 -c 'print(sum(range(10)))'; id -u")
        assert [line["text"] for line in done["logs"]["stdout"]] == ["45", "0"]
        assert agent.do("sandbox_kill", **here) == {"status": "killed"}
