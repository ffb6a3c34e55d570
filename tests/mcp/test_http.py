# SPDX-License-Identifier: Apache-2.0
"""Who may connect over HTTP, and who may not."""

import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.mcp.agent import (
    TOKEN,
    WAIT_SECONDS,
    HTTPProcess,
    command,
    environment,
    http_process,
    over_http,
    wait_until_gone,
)

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def post(process: HTTPProcess, **changes: str | None) -> httpx.Response:
    """Say hello with the right headers, but for the changed ones."""
    headers = {
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {TOKEN}",
    }
    headers |= {name.replace("_", "-"): value for name, value in changes.items() if value}
    for name, value in changes.items():
        if value is None:
            del headers[name]
    with httpx.Client(trust_env=False, timeout=WAIT_SECONDS) as client:
        return client.post(process.url, json=HELLO, headers=headers)


def message(response: httpx.Response) -> Any:
    return response.json()["error"]["message"]


def test_the_right_token_comes_in(process: HTTPProcess) -> None:
    answered = post(process)
    assert answered.status_code == 200
    assert "mcp-session-id" in answered.headers


@pytest.mark.parametrize(
    "sent",
    [None, "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer ü"],
)
def test_a_missing_or_wrong_token_stays_out(process: HTTPProcess, sent: str | None) -> None:
    headers: dict[str, Any] = {"accept": "application/json, text/event-stream"}
    if sent is not None:
        headers["authorization"] = sent.encode()
    answered = httpx.post(process.url, json=HELLO, headers=headers, trust_env=False)
    assert answered.status_code == 401
    assert answered.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer TOKEN" in message(answered)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1.evil.example"]
)
def test_a_page_of_another_origin_stays_out(process: HTTPProcess, origin: str) -> None:
    answered = post(process, origin=origin)
    assert answered.status_code == 403
    assert "--allow-origin" in message(answered)


def test_a_page_of_its_own_origin_comes_in(process: HTTPProcess) -> None:
    assert post(process, origin=process.url.removesuffix("/mcp")).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1:1", "127.0.0.1"])
def test_another_host_name_stays_out(process: HTTPProcess, host: str) -> None:
    answered = post(process, host=host)
    assert answered.status_code == 421
    assert "--allow-host" in message(answered)


def test_localhost_is_a_name_of_it(process: HTTPProcess) -> None:
    port = process.url.removesuffix("/mcp").rpartition(":")[2]
    assert post(process, host=f"localhost:{port}").status_code == 200


def test_what_was_allowed_comes_in(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    flags = ("--allow-host", "box.example", "--allow-origin", "https://app.example")
    with http_process(None, "--token-file", str(file), *flags, token=None) as process:
        answered = post(process, host="box.example", origin="https://app.example")
    assert answered.status_code == 200
    assert not any("token" in line for line in process.said)


def test_every_method_is_guarded(process: HTTPProcess) -> None:
    for method in ("GET", "DELETE", "OPTIONS", "PUT"):
        answered = httpx.request(method, process.url, trust_env=False)
        assert answered.status_code == 401, method


def test_a_token_is_made_and_printed_once() -> None:
    with http_process(None, token=None) as first, http_process(None, token=None) as second:
        assert first.token != second.token
        assert re.fullmatch(r"[\w-]{40,}", first.token)
        assert sum(first.token in line for line in first.said) == 1
        with over_http(first) as agent:
            assert agent.portal.call(agent.client.list_tools).tools


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_every_protocol_version_is_spoken(process: HTTPProcess, mode: str) -> None:
    with over_http(process, mode=mode) as agent:
        made = agent.do("sandbox_create", image="host")["sandbox_id"]
        assert agent.do("command_run", sandbox_id=made, command="exit 4")["exit_code"] == 4
        agent.do("sandbox_kill", sandbox_id=made)


@pytest.mark.parametrize("content", ["", " \n", "schlüssel", "two\nlines"])
def test_a_token_file_that_cannot_work_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    refused = run("--transport", "streamable-http", "--token-file", str(tmp_path / "token"))
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "token" in refused.stderr


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_call_is_cancelled_in_every_version(
    process: HTTPProcess, tmp_path: Path, mode: str
) -> None:
    with over_http(process, mode=mode) as agent:
        here = {"sandbox_id": agent.do("sandbox_create", image="host")["sandbox_id"]}
        noted = tmp_path / "pid"
        shell = f"echo $$ > {noted}; echo ready; exec sleep 600"
        running = agent.start("command_run", **here, command=shell)
        assert agent.reported.wait(WAIT_SECONDS)
        running.cancel()
        wait_until_gone(int(noted.read_text()))
        agent.do("sandbox_kill", **here)


def test_a_port_that_is_taken_is_told_in_a_line(process: HTTPProcess) -> None:
    port = process.url.removesuffix("/mcp").rpartition(":")[2]
    refused = run("--transport", "streamable-http", "--port", port)
    assert refused.returncode == 1
    assert "in use" in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr


def run(*flags: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*flags),
        env=environment(None),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
