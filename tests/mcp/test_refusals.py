# SPDX-License-Identifier: Apache-2.0
"""What cannot be done is said in one line: a code, what happened, the request, what to do."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.server import API_KEY, Server
from tests.mcp.agent import Agent, over_stdio


@pytest.fixture
def unreachable() -> Iterator[str]:
    """An address nobody listens on, and nobody else can take meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_an_unreachable_server_is_named(unreachable: str) -> None:
    with over_stdio(None, "--domain", unreachable) as agent:
        said = agent.refusal("sandbox_create", image="host")
    assert said.startswith("[CONNECTION] ")
    assert unreachable in said
    assert "--domain" in said
    assert "\n" not in said


def test_a_wrong_key_is_told_with_the_request_id(server: Server) -> None:
    with over_stdio(server, "--api-key", "wrong") as agent:
        said = agent.refusal("sandbox_list")
    assert "_API_KEY]" in said
    assert "(request " in said
    assert "OPEN_SANDBOX_API_KEY" in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("sandbox_get_info", {}, "sandbox_id"),
        ("sandbox_get_info", {"sandbox_id": 5}, "sandbox_id"),
        ("sandbox_renew", {"sandbox_id": "x", "timeout_seconds": -1}, "timeout_seconds"),
        ("file_move", {"sandbox_id": "x", "entries": [{"source": "a"}]}, "entries.0.destination"),
        ("sandbox_create", {"image": "host", "network_policy": {"egress": "all"}}, "egress"),
    ],
)
def test_bad_arguments_are_named_in_one_line(
    agent: Agent, tool: str, arguments: dict[str, object], named: str
) -> None:
    said = agent.refusal(tool, **arguments)
    assert said.startswith(f"[INVALID_ARGUMENT] {tool}: ")
    assert named in said
    assert "\n" not in said


def test_half_of_a_login_is_refused(agent: Agent) -> None:
    said = agent.refusal("sandbox_create", image="host", auth_username="me")
    assert said.startswith("[INVALID_ARGUMENT] auth_username and auth_password go together")


def test_an_unknown_tool_is_refused(agent: Agent) -> None:
    assert "[UNKNOWN_TOOL] Unknown tool: sandbox_explode" in agent.refusal("sandbox_explode")


def test_an_unknown_sandbox_is_refused_with_the_request_id(agent: Agent) -> None:
    said = agent.refusal("sandbox_kill", sandbox_id="no-such-sandbox")
    assert "SANDBOX_NOT_FOUND]" in said
    assert "(request " in said
    assert "make another" in said


def test_an_unknown_command_is_refused(agent: Agent, sandbox_id: str) -> None:
    here = {"sandbox_id": sandbox_id, "execution_id": "unknown"}
    for tool in ("command_status", "command_output", "command_logs", "command_interrupt"):
        assert agent.refusal(tool, **here).count("\n") == 0


def test_the_server_goes_on_after_refusals(agent: Agent, sandbox_id: str) -> None:
    agent.refusal("file_read", sandbox_id=sandbox_id, path="/no/such/file")
    assert agent.do("command_run", sandbox_id=sandbox_id, command="true")["exit_code"] == 0


@pytest.mark.parametrize("tool", ["sandbox_get_endpoint", "sandbox_get_signed_endpoint"])
@pytest.mark.parametrize("port", [44772, 18080])
def test_a_model_gets_no_way_to_what_serves_the_sandbox(
    agent: Agent, sandbox_id: str, tool: str, port: int
) -> None:
    said = agent.refusal(tool, sandbox_id=sandbox_id, port=port)
    assert "not for models" in said
    assert "\n" not in said


def test_the_key_can_come_from_a_file(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("wrong\n")
    with over_stdio(server, "--api-key-file", str(file)) as agent:
        assert "INVALID_API_KEY" in agent.refusal("sandbox_list")
    file.write_text(f"{API_KEY}\n")
    with over_stdio(server, "--api-key-file", str(file)) as agent:
        agent.do("sandbox_list")
