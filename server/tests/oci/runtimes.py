# SPDX-License-Identifier: Apache-2.0
"""The runtimes that come with the server, each in its own home: for tests that hold for all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from opensandbox_server.host.data_dir import make_private
from opensandbox_server.host.programs import find_program
from opensandbox_server.runtimes.base import (
    Instance,
    InstanceState,
    Runtime,
    RuntimeHome,
    SandboxSpec,
    Secrets,
)
from opensandbox_server.runtimes.fake import FakeRuntime
from opensandbox_server.runtimes.oci.runtime import OCIRuntime
from tests.security.harness import PATIENCE

SLEEP = ("sleep", "infinity")


def make(kind: type[FakeRuntime | OCIRuntime], data: Path) -> FakeRuntime | OCIRuntime:
    """Make a runtime whose instances may outlive it."""
    make_private(data)
    (data / "run").mkdir(exist_ok=True)
    options = {"slots_ahead": 1} if kind is OCIRuntime else {}
    return kind(RuntimeHome(data, data / "run", find_program("execd"), None, options))


@contextlib.asynccontextmanager
async def opened(kind: type[FakeRuntime | OCIRuntime], data: Path) -> AsyncIterator[Runtime]:
    """Have a runtime, and leave none of its instances."""
    runtime = make(kind, data)
    await runtime.prepare()
    try:
        yield runtime
    finally:
        for instance in await runtime.instances():
            await runtime.stop(instance.id)
        await runtime.close()


@pytest.fixture(params=[FakeRuntime, OCIRuntime])
def kind(request: pytest.FixtureRequest) -> type[FakeRuntime | OCIRuntime]:
    """Each of the runtimes that come with the server."""
    if request.param is OCIRuntime:
        request.getfixturevalue("network")
    chosen: type[FakeRuntime | OCIRuntime] = request.param
    return chosen


@pytest.fixture
async def runtime(kind: type[FakeRuntime | OCIRuntime], tmp_path: Path) -> AsyncIterator[Runtime]:
    """One of them, ready."""
    async with opened(kind, tmp_path / "home") as ready:
        yield ready


async def start(runtime: Runtime, name: str, entrypoint: tuple[str, ...] = SLEEP) -> Instance:
    """Start an instance."""
    return await runtime.start(SandboxSpec(name, "host", entrypoint), Secrets("t"))


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
