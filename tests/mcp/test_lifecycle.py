# SPDX-License-Identifier: Apache-2.0
"""Sandboxes come and go by tools, over both transports."""

from datetime import UTC, datetime, timedelta

import httpx

from opensandbox import SandboxSync
from tests.harness.lifecycle import API_KEY, run_standin
from tests.harness.server import Server
from tests.harness.wait import eventually
from tests.mcp.agent import Agent, over_stdio


def test_a_sandbox_is_created_told_about_and_killed(agent: Agent) -> None:
    made = agent.do(
        "sandbox_create", image="host", metadata={"purpose": "test"}, env={"COLOUR": "blue"}
    )
    sandbox_id = made["sandbox_id"]
    assert made["info"]["id"] == sandbox_id
    assert made["info"]["metadata"] == {"purpose": "test"}
    info = agent.do("sandbox_get_info", sandbox_id=sandbox_id)
    assert info["status"]["state"] == "Running"
    assert info["expires_at"] is not None
    coloured = agent.do("command_run", sandbox_id=sandbox_id, command="echo $COLOUR")
    assert coloured["logs"]["stdout"][0]["text"] == "blue"
    assert agent.do("sandbox_kill", sandbox_id=sandbox_id) == {"status": "killed"}
    assert "SANDBOX_NOT_FOUND" in agent.refusal("sandbox_get_info", sandbox_id=sandbox_id)


def test_sandboxes_are_listed_by_their_metadata(agent: Agent, sandbox_id: str) -> None:
    agent.do("sandbox_patch_metadata", sandbox_id=sandbox_id, metadata={"find": "me"})
    page = agent.do("sandbox_list", filter={"metadata": {"find": "me"}, "page_size": 5})
    assert [info["id"] for info in page["sandbox_infos"]] == [sandbox_id]
    assert page["pagination"]["total_items"] == 1
    patched = agent.do("sandbox_patch_metadata", sandbox_id=sandbox_id, metadata={"find": None})
    assert not patched["metadata"]
    assert sandbox_id in {info["id"] for info in agent.do("sandbox_list")["sandbox_infos"]}


def test_a_sandbox_is_renewed(agent: Agent, sandbox_id: str) -> None:
    renewed = agent.do("sandbox_renew", sandbox_id=sandbox_id, timeout_seconds=3600)
    left = datetime.fromisoformat(renewed["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=50) < left < timedelta(minutes=70)


def test_health_and_metrics_are_told(agent: Agent, sandbox_id: str) -> None:
    health = agent.do("sandbox_healthcheck", sandbox_id=sandbox_id)
    assert health == {"sandbox_id": sandbox_id, "healthy": True}
    metrics = agent.do("sandbox_get_metrics", sandbox_id=sandbox_id)
    assert metrics["memory_total_in_mib"] > 0
    assert metrics["timestamp"] > 0


def test_a_sandbox_is_paused_and_goes_on(agent: Agent, sandbox_id: str) -> None:
    assert agent.do("sandbox_pause", sandbox_id=sandbox_id) == {"status": "paused"}
    assert agent.do("sandbox_get_info", sandbox_id=sandbox_id)["status"]["state"] == "Paused"
    refused = agent.refusal("command_run", sandbox_id=sandbox_id, command="true")
    assert "sandbox_resume" in refused
    assert agent.do("sandbox_resume", sandbox_id=sandbox_id) == {"status": "resumed"}
    assert agent.do("command_run", sandbox_id=sandbox_id, command="true")["exit_code"] == 0


def test_a_sandbox_of_somebody_else_must_be_connected_first(agent: Agent, server: Server) -> None:
    other = SandboxSync.create("host", connection_config=server.sync_config)
    try:
        refused = agent.refusal("command_run", sandbox_id=other.id, command="true")
        assert "sandbox_connect" in refused
        assert "connect_if_missing" in refused
        once = agent.do("sandbox_healthcheck", sandbox_id=other.id, connect_if_missing=True)
        assert once["healthy"]
        connected = agent.do("sandbox_connect", sandbox_id=other.id)
        assert connected["info"]["id"] == other.id
        assert agent.do("command_run", sandbox_id=other.id, command="true")["exit_code"] == 0
    finally:
        other.destroy()


def test_a_sandbox_that_has_ended_is_forgotten(agent: Agent, server: Server) -> None:
    sandbox_id = agent.do("sandbox_create", image="host")["sandbox_id"]
    with SandboxSync.connect(sandbox_id, server.sync_config) as same:
        same.kill()
    assert "SANDBOX_NOT_FOUND" in agent.refusal(
        "command_run", sandbox_id=sandbox_id, command="true"
    )
    assert "sandbox_connect" in agent.refusal("command_run", sandbox_id=sandbox_id, command="true")


def test_a_port_is_reached_by_its_endpoints(agent: Agent, sandbox_id: str, work: str) -> None:
    agent.do("file_write", sandbox_id=sandbox_id, path=f"{work}/page.txt", content="served")
    serving = agent.do(
        "command_run",
        sandbox_id=sandbox_id,
        command="exec python3 -u -m http.server --bind 127.0.0.1 0",
        background=True,
        working_directory=work,
    )
    logs = ""
    cursor = 0
    while " port " not in logs:
        page = agent.do(
            "command_logs",
            sandbox_id=sandbox_id,
            execution_id=serving["id"],
            cursor=cursor,
            wait_seconds=20,
        )
        assert page["running"], logs
        logs, cursor = logs + page["content"], page["cursor"]
    port = int(logs.partition(" port ")[2].split()[0])
    open_one = agent.do("sandbox_get_endpoint", sandbox_id=sandbox_id, port=port)
    signed = agent.do(
        "sandbox_get_signed_endpoint", sandbox_id=sandbox_id, port=port, expires_in_seconds=600
    )
    for endpoint in (open_one, signed):
        url = f"http://{endpoint['endpoint']}/page.txt"
        assert httpx.get(url, headers=endpoint["headers"], trust_env=False).text == "served"
    agent.do("command_interrupt", sandbox_id=sandbox_id, execution_id=serving["id"])


def test_logs_and_events_of_a_sandbox_are_told(agent: Agent) -> None:
    entrypoint = ["sh", "-c", "echo begun; exec sleep 600"]
    sandbox_id = agent.do("sandbox_create", image="host", entrypoint=entrypoint)["sandbox_id"]
    eventually(lambda: agent.do("diagnostics_logs", sandbox_id=sandbox_id)["content"] == "begun\n")
    logs = agent.do("diagnostics_logs", sandbox_id=sandbox_id)
    assert (logs["kind"], logs["sandbox_id"]) == ("logs", sandbox_id)
    assert agent.read(f"sandbox://{sandbox_id}/logs").text == "begun\n"
    assert agent.do("diagnostics_events", sandbox_id=sandbox_id)["kind"] == "events"
    agent.do("sandbox_kill", sandbox_id=sandbox_id)


def test_a_cancelled_create_leaves_no_sandbox() -> None:
    with run_standin() as standin:
        standin.carries_endpoints = False
        standin.execd = {"endpoint": standin.domain}
        connection = ("--domain", standin.domain, "--api-key", API_KEY)
        with over_stdio(None, *connection) as agent:
            standin.silent.set()  # it makes the sandbox and does not say so yet
            creating = agent.start("sandbox_create", image="x", skip_health_check=True)
            eventually(lambda: bool(standin.sandboxes))
            creating.cancel()
            for _ in range(2):  # calls that ask nobody: they are read after the cancellation
                agent.refusal("command_run", sandbox_id="unknown", command="true")
            standin.silent.clear()
            eventually(lambda: not standin.sandboxes)
