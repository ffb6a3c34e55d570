# SPDX-License-Identifier: Apache-2.0
"""A real MCP client with the real `opensandbox-mcp` process at the other end."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from tests.harness.server import API_KEY, Server
from tests.harness.wait import eventually

Transport = Literal["stdio", "http"]
WAIT_SECONDS = 60.0  # bounds everything a test waits for
TOKEN = "token of the tests"  # noqa: S105


@dataclass
class Agent:
    """Calls tools as an agent does; each call blocks until its answer is there."""

    client: Client
    portal: BlockingPortal
    progress: list[str] = field(default_factory=list)
    """What calls reported while they ran."""
    reported: threading.Event = field(default_factory=threading.Event)

    def start(self, tool: str, **arguments: Any) -> "Future[CallToolResult]":
        """Call a tool and do not wait; cancelling the future cancels the call."""
        return self.portal.start_task_soon(self._call, tool, arguments)

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        """Call a tool."""
        return self.start(tool, **arguments).result(WAIT_SECONDS)

    def do(self, tool: str, **arguments: Any) -> Any:
        """Call a tool that must succeed, and return its structured answer."""
        result = self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        answer = result.structured_content
        assert answer is not None
        return answer["result"] if set(answer) == {"result"} else answer

    def refusal(self, tool: str, **arguments: Any) -> str:
        """Call a tool that must fail, and return what it said."""
        result = self.call(tool, **arguments)
        assert result.is_error, text_of(result)
        return text_of(result)

    def read(self, uri: str) -> Any:
        """Read a resource that has one part."""
        (content,) = self.portal.call(self.client.read_resource, uri).contents
        return content

    async def _call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        return await self.client.call_tool(tool, arguments, progress_callback=self._on_progress)

    async def _on_progress(
        self,
        progress: float,  # noqa: ARG002
        total: float | None,  # noqa: ARG002
        message: str | None,
    ) -> None:
        self.progress.append(message or "")
        self.reported.set()


def text_of(result: CallToolResult) -> str:
    """Return the text of an answer."""
    return "".join(part.text for part in result.content if isinstance(part, TextContent))


def wait_until_gone(pid: int) -> None:
    """Wait for the end of a process that somebody else reaps."""
    eventually(lambda: not Path(f"/proc/{pid}").exists())


def conversation(tool: str, **arguments: Any) -> list[str]:
    """Return the lines of a client that calls one tool and reads no answer."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
    ]
    return [json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages]


def environment(server: Server | None) -> dict[str, str]:
    """Return what the process is told of the OpenSandbox server, and nothing of this machine's."""
    ours = ("OPENSANDBOX_", "OPEN_SANDBOX_", "SANDBOX_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    if server is not None:
        clean |= {"OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": API_KEY}
    return clean


def command(*flags: str) -> list[str]:
    """Return the command line of the server under test."""
    return [sys.executable, "-m", "opensandbox_mcp", *flags]


@contextlib.contextmanager
def over_stdio(server: Server | None, *flags: str, mode: str = "auto") -> Iterator[Agent]:
    """Connect to a process of its own."""
    program, *arguments = command(*flags)
    parameters = StdioServerParameters(
        command=program, args=arguments, env=environment(server), cwd="/"
    )
    with connected(Client(stdio_client(parameters), mode=mode)) as agent:
        yield agent


@contextlib.contextmanager
def over_http(
    process: "HTTPProcess", mode: str = "auto", terminates: bool = True
) -> Iterator[Agent]:
    """Connect to a process that others may use too."""
    with start_blocking_portal() as portal:
        http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {process.token}"},
            timeout=WAIT_SECONDS,
            trust_env=False,
        )
        transport = streamable_http_client(
            process.url, http_client=http, terminate_on_close=terminates
        )
        with (
            portal.wrap_async_context_manager(http),
            portal.wrap_async_context_manager(Client(transport, mode=mode)) as client,
        ):
            yield Agent(client, portal)


@contextlib.contextmanager
def connected(client: Client) -> Iterator[Agent]:
    """Connect a client, and make an agent of it."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(client) as entered,
    ):
        yield Agent(entered, portal)


@dataclass
class HTTPProcess:
    """A running `opensandbox-mcp --transport streamable-http`."""

    process: subprocess.Popen[str]
    url: str
    token: str
    said: list[str]


@contextlib.contextmanager
def http_process(
    server: Server | None, *flags: str, token: str | None = TOKEN
) -> Iterator[HTTPProcess]:
    """Run a process on a free port; it must end well when it is told to."""
    variables = environment(server) | ({"OPENSANDBOX_MCP_TOKEN": token} if token else {})
    process = subprocess.Popen(
        command("--transport", "streamable-http", "--port", "0", *flags),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
        cwd="/",
    )
    assert process.stdout is not None
    assert process.stderr is not None
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stderr, lines))
    reader.start()
    try:
        said = _until_listening(lines)
        shown = token or _after(said, "must send this token: ")
        yield HTTPProcess(process, _after(said, "listening on "), shown, said)
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 0
        assert process.stdout.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        reader.join()


def _read(stream: IO[str], lines: "queue.Queue[str | None]") -> None:
    with stream:
        for line in stream:
            lines.put(line.rstrip("\n"))
    lines.put(None)


def _until_listening(lines: "queue.Queue[str | None]") -> list[str]:
    said: list[str] = []
    while not any("listening on " in line for line in said):
        line = lines.get(timeout=WAIT_SECONDS)
        assert line is not None, f"it ended: {said}"
        said.append(line)
    return said


def _after(said: Sequence[str], words: str) -> str:
    return next((line.partition(words)[2] for line in said if words in line), "")
