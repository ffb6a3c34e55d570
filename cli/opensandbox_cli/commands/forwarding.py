# SPDX-License-Identifier: Apache-2.0
"""``osb port-forward``: ports of a sandbox as local ones."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from opensandbox_cli.arguments import sandbox_argument
from opensandbox_cli.failures import CommandFault, ExitCode
from opensandbox_cli.invocation import Invocation, asynchronous

if TYPE_CHECKING:
    from opensandbox import Sandbox
    from opensandbox._async.tunnels import Tunnel

CHUNK = 64 << 10
LOOK_SECONDS = 2.0
"""How late it may be noticed that the sandbox has ended: no connection tells, there may be none."""


@dataclass(frozen=True)
class Ports:
    """A local port, 0 for any free one, and the port of the sandbox that it leads to."""

    local: int
    remote: int


class PortPair(click.ParamType[Ports]):
    """``[LOCAL:]REMOTE``."""

    name = "ports"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Ports:
        """Read one or two numbers."""
        if isinstance(value, Ports):
            return value
        local, colon, remote = value.rpartition(":")
        ports = [remote, remote] if not colon else [local or "0", remote]
        if not all(port.isdecimal() and int(port) <= 65535 for port in ports) or ports[1] == "0":
            self.fail(f"{value!r} is not [LOCAL:]REMOTE, like 8080 or 9000:80", param, ctx)
        return Ports(int(ports[0]), int(ports[1]))


@click.command("port-forward")
@sandbox_argument
@click.argument("pairs", metavar="[LOCAL:]REMOTE...", nargs=-1, required=True, type=PortPair())
@click.option("--address", default="127.0.0.1", show_default=True, help="Where to listen.")
@asynchronous
async def port_forward(
    invocation: Invocation, sandbox_id: str, pairs: tuple[Ports, ...], address: str
) -> None:
    """Make ports of a sandbox local ones.

    Until Ctrl-C or the end of the sandbox, every connection to a local port is one to the port of
    the sandbox, where a program may listen on localhost. 0:REMOTE takes a free local port.
    """
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(invocation.sandbox(sandbox_id, is_quiet=True))
        for pair in pairs:
            forwarder = _Forwarder(sandbox, pair.remote)
            listening = await _listen(forwarder, address, pair.local)
            await stack.enter_async_context(listening)
            stack.push_async_callback(forwarder.close)
            host, port = listening.sockets[0].getsockname()[:2]
            click.echo(f"forwarding {host}:{port} to port {pair.remote} of {sandbox_id}")
        await _ended(sandbox)
        message = f"sandbox {sandbox_id} has ended; see what is left with: osb sandbox list"
        raise CommandFault(message, ExitCode.NOT_FOUND)


async def _ended(sandbox: Sandbox) -> None:
    """Return when the sandbox has ended. A server that cannot say so now is asked again."""
    from opensandbox.exceptions import (
        SandboxApiException,
        SandboxConnectionException,
        SandboxTimeoutException,
    )
    from opensandbox.models.sandboxes import SandboxState

    state = ""
    while state not in {SandboxState.TERMINATED, SandboxState.FAILED}:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            state = (await sandbox.get_info()).status.state
        except SandboxApiException as error:
            if error.status_code == 404:
                return
        except (SandboxConnectionException, SandboxTimeoutException):
            continue


async def _listen(forwarder: _Forwarder, address: str, port: int) -> asyncio.Server:
    try:
        return await asyncio.start_server(forwarder.accept, address, port)
    except OSError as error:
        reason = error.strerror or error
        message = f"cannot listen on {address}:{port}: {reason}; choose another with LOCAL:REMOTE"
        raise CommandFault(message) from error


class _Forwarder:
    """The connections to one port; each is carried by a tunnel of its own."""

    def __init__(self, sandbox: Sandbox, port: int) -> None:
        self._sandbox = sandbox
        self._port = port
        self._carrying: set[asyncio.Task[Any]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin to carry one connection."""
        task = asyncio.create_task(self._carry(reader, writer), name=f"port {self._port}")
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from opensandbox.exceptions import SandboxException

        try:
            opened = await self._sandbox.open_tunnel(self._port)
            async with opened as tunnel, asyncio.TaskGroup() as both:
                both.create_task(_send(reader, tunnel))
                both.create_task(_receive(tunnel, writer))
        except* (SandboxException, ConnectionError) as errors:
            reason = errors.exceptions[0]
            click.echo(f"osb: port {self._port}: {reason}", err=True)
        finally:
            writer.close()

    async def close(self) -> None:
        """End every connection."""
        for task in list(self._carrying):
            task.cancel()
        if self._carrying:
            await asyncio.wait(self._carrying)


async def _send(reader: asyncio.StreamReader, tunnel: Tunnel) -> None:
    while data := await reader.read(CHUNK):
        await tunnel.send(data)
    await tunnel.end()


async def _receive(tunnel: Tunnel, writer: asyncio.StreamWriter) -> None:
    while data := await tunnel.receive():
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
