# SPDX-License-Identifier: Apache-2.0
"""The configurations in the documentation start a server that an agent can use."""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.harness.server import API_KEY, Server
from tests.mcp.agent import connected

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text()
CONFIGURATIONS = re.findall(
    r"^<!-- config: ([\w-]+) -->\n```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE
)
READERS = {"json": json.loads, "toml": tomllib.loads}
TABLES = ("mcpServers", "mcp_servers")


def test_every_agent_has_its_configuration() -> None:
    assert [name for name, _, _ in CONFIGURATIONS] == ["claude-code", "cursor", "codex", "gemini"]
    assert len(CONFIGURATIONS) == PAGE.count("```json") + PAGE.count("```toml")


@pytest.mark.parametrize(
    ("language", "text"),
    [found[1:] for found in CONFIGURATIONS],
    ids=[c[0] for c in CONFIGURATIONS],
)
def test_a_configuration_starts_a_server_that_works(
    server: Server, language: str, text: str
) -> None:
    wanted = entry(READERS[language](text))
    assert set(wanted["env"]) == {"OPEN_SANDBOX_DOMAIN", "OPEN_SANDBOX_API_KEY"}
    program = Path(sys.executable).with_name(wanted["command"])
    parameters = StdioServerParameters(
        command=str(program),
        args=wanted["args"],
        env={"OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": API_KEY},
        cwd="/",
    )
    with connected(Client(stdio_client(parameters))) as agent:
        done = agent.do("command_run", command="echo hello")
    assert [line["text"] for line in done["logs"]["stdout"]] == ["hello"]


def entry(configuration: dict[str, Any]) -> dict[str, Any]:
    (table,) = (configuration[name] for name in TABLES if name in configuration)
    found: dict[str, Any] = table["opensandbox"]
    return found
