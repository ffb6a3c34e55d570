# SPDX-License-Identifier: Apache-2.0
"""A real OpenSandbox server, the MCP server in front of it, and a client on each transport."""

from collections.abc import Iterator

import pytest

from tests.harness.server import Server, shared_server
from tests.mcp.agent import Agent, HTTPProcess, Transport, http_process, over_http, over_stdio


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """An OpenSandbox server on the fake runtime; tests leave no sandbox."""
    with shared_server("fake") as started:
        yield started


@pytest.fixture(scope="module")
def process(server: Server) -> Iterator[HTTPProcess]:
    """The MCP server over HTTP."""
    with http_process(server) as running:
        yield running


@pytest.fixture(scope="module", params=["stdio", "http"])
def agent(request: pytest.FixtureRequest, server: Server) -> Iterator[Agent]:
    """A client that names sandboxes by their ids, over each transport."""
    transport: Transport = request.param
    if transport == "stdio":
        with over_stdio(server) as connected:
            yield connected
    else:
        with over_http(request.getfixturevalue("process")) as connected:
            yield connected


@pytest.fixture
def sandbox_id(agent: Agent) -> Iterator[str]:
    """A sandbox of this test alone."""
    made: str = agent.do("sandbox_create", image="host")["sandbox_id"]
    yield made
    agent.call("sandbox_kill", sandbox_id=made)


@pytest.fixture
def work(agent: Agent, sandbox_id: str) -> Iterator[str]:
    """An empty directory in the sandbox; the fake runtime's is on this machine."""
    made = agent.do("command_run", sandbox_id=sandbox_id, command="mktemp -d")
    directory: str = made["logs"]["stdout"][0]["text"].strip()
    yield directory
    agent.do("file_delete_directories", sandbox_id=sandbox_id, paths=[directory])
