# SPDX-License-Identifier: Apache-2.0
"""What tests that hold for every runtime do with one."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from opensandbox_server.host.data_dir import make_private
from opensandbox_server.host.programs import find_program
from opensandbox_server.runtimes.base import (
    Instance,
    InstanceState,
    LogPart,
    Resources,
    Runtime,
    RuntimeHome,
    SandboxSpec,
    Secrets,
)
from opensandbox_server.runtimes.fake import FakeRuntime
from opensandbox_server.runtimes.oci.runtime import OCIRuntime
from tests.harness.wait import PATIENCE

Kind = type[FakeRuntime | OCIRuntime]
SLEEP = ("sleep", "infinity")
NO_LIMITS = Resources()


def make(kind: Kind, data: Path) -> FakeRuntime | OCIRuntime:
    """Make a runtime whose instances may outlive it."""
    make_private(data)
    (data / "run").mkdir(exist_ok=True)
    options = {"slots_ahead": 1} if kind is OCIRuntime else {}
    return kind(RuntimeHome(data, data / "run", find_program("execd"), None, options))


@contextlib.asynccontextmanager
async def opened(kind: Kind, data: Path) -> AsyncIterator[Runtime]:
    """Have a runtime, and leave none of its instances."""
    runtime = make(kind, data)
    await runtime.prepare()
    try:
        yield runtime
    finally:
        await stop_all(runtime)
        await runtime.close()


async def stop_all(runtime: Runtime) -> None:
    """Leave no instance."""
    for instance in await runtime.instances():
        await runtime.stop(instance.id)


async def start(
    runtime: Runtime,
    name: str,
    entrypoint: tuple[str, ...] = SLEEP,
    resources: Resources = NO_LIMITS,
) -> Instance:
    """Start an instance."""
    spec = SandboxSpec(name, "host", entrypoint, resources=resources)
    return await runtime.start(spec, Secrets("t"))


async def until(is_true: Callable[[], bool]) -> None:
    """Wait for something."""
    async with asyncio.timeout(PATIENCE):
        while not is_true():
            await asyncio.sleep(0.01)


async def until_exited(runtime: Runtime, name: str) -> None:
    """Wait for the end of an instance."""
    async with asyncio.timeout(PATIENCE):
        while (await runtime.inspect(name)).instance.state is not InstanceState.EXITED:
            await asyncio.sleep(0.01)


def status(
    instance: Instance, token: str, path: str = "/ping", body: dict[str, str] | None = None
) -> int:
    """Ask execd of an instance with a token; all of its answer has come when this returns."""
    connection = http.client.HTTPConnection("execd")
    with contextlib.closing(connection):
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE)
        connection.sock.connect(str(instance.execd.socket))
        headers = {"X-EXECD-ACCESS-TOKEN": token, "Content-Type": "application/json"}
        sent = json.dumps(body) if body else None
        connection.request("POST" if body else "GET", path, sent, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status


async def all_parts(parts: AsyncIterator[LogPart]) -> list[LogPart]:
    """Read all there is to come."""
    async with asyncio.timeout(PATIENCE):
        return [part async for part in parts]
