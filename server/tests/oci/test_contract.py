# SPDX-License-Identifier: Apache-2.0
"""What every runtime promises to whoever calls its verbs: the docstrings of `Runtime`, tried out.

The conformance suite asks a server over HTTP and cannot see this seam.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import (
    Instance,
    InstanceState,
    InstanceUnknown,
    Runtime,
    SandboxSpec,
    Secrets,
    StartFailed,
    WrongState,
)
from opensandbox_server.runtimes.fake import FakeRuntime
from opensandbox_server.runtimes.oci.runtime import OCIRuntime
from server.tests.oci.runtimes import SLEEP, kind, make, opened, runtime, start, until_exited
from tests.security.harness import PATIENCE

__all__ = ["kind", "runtime"]  # fixtures
pytestmark = pytest.mark.anyio


async def states(runtime: Runtime) -> dict[str, InstanceState]:
    return {instance.id: instance.state for instance in await runtime.instances()}


def status(instance: Instance, token: str) -> int:
    """Ask execd of an instance with a token."""
    connection = http.client.HTTPConnection("execd")
    with contextlib.closing(connection):
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE)
        connection.sock.connect(str(instance.execd.socket))
        connection.request("GET", "/ping", headers={"X-EXECD-ACCESS-TOKEN": token})
        return connection.getresponse().status


async def test_a_started_instance_answers_to_its_token_and_to_no_other(runtime: Runtime) -> None:
    instance = await runtime.start(SandboxSpec("one", "host", SLEEP), Secrets("its token"))
    assert instance.state is InstanceState.RUNNING
    assert await asyncio.to_thread(status, instance, "its token") == 200
    assert await asyncio.to_thread(status, instance, "another") == 401


async def test_stopping_repeats_safely_and_leaves_nothing(runtime: Runtime) -> None:
    await runtime.stop("never-was")
    await start(runtime, "one")
    await runtime.stop("one")
    await runtime.stop("one")
    assert await states(runtime) == {}


@pytest.mark.parametrize("verb", ["pause", "resume", "inspect"])
async def test_an_instance_that_never_was_is_unknown(runtime: Runtime, verb: str) -> None:
    with pytest.raises(InstanceUnknown):
        await getattr(runtime, verb)("never-was")


async def test_pausing_and_resuming_repeat_safely(runtime: Runtime) -> None:
    await start(runtime, "one")
    for verb, state in (
        (runtime.pause, InstanceState.PAUSED),
        (runtime.resume, InstanceState.RUNNING),
    ):
        await verb("one")
        await verb("one")
        assert await states(runtime) == {"one": state}
    await runtime.pause("one")
    await runtime.stop("one")
    assert await states(runtime) == {}


async def test_what_has_exited_cannot_be_paused_and_is_there_until_it_is_stopped(
    runtime: Runtime,
) -> None:
    await start(runtime, "short", ("sh", "-c", "echo bye; exit 4"))
    await until_exited(runtime, "short")
    for verb in (runtime.pause, runtime.resume):
        with pytest.raises(WrongState):
            await verb("short")
    seen = await runtime.inspect("short")
    assert (seen.instance.exit_code, seen.logs) == (4, "bye\n")
    await runtime.stop("short")
    assert await states(runtime) == {}


async def test_a_start_that_fails_leaves_nothing_and_the_name_is_free(runtime: Runtime) -> None:
    with pytest.raises(StartFailed):
        await start(runtime, "one", ("/no/such/program",))
    assert await states(runtime) == {}
    await start(runtime, "one")
    assert await states(runtime) == {"one": InstanceState.RUNNING}


@pytest.mark.parametrize("milliseconds", [0, 1, 5, 20])
async def test_a_cancelled_start_leaves_everything_or_nothing(
    runtime: Runtime, milliseconds: int
) -> None:
    starting = asyncio.create_task(start(runtime, "one"))
    await asyncio.sleep(milliseconds / 1000)
    starting.cancel()
    try:
        await starting
    except asyncio.CancelledError:
        assert await states(runtime) == {}
    else:
        assert await states(runtime) == {"one": InstanceState.RUNNING}


async def test_many_start_beside_each_other(runtime: Runtime) -> None:
    names = [f"many-{number}" for number in range(10)]
    await asyncio.gather(*(start(runtime, name) for name in names))
    assert await states(runtime) == dict.fromkeys(names, InstanceState.RUNNING)
    await asyncio.gather(*(runtime.stop(name) for name in names))
    assert await states(runtime) == {}


async def test_the_next_runtime_of_a_home_finds_what_the_last_one_started(
    kind: type[FakeRuntime | OCIRuntime], tmp_path: Path
) -> None:
    first = make(kind, tmp_path / "home")
    await first.prepare()
    try:
        instance = await start(first, "runs")
        await start(first, "sleeps")
        await first.pause("sleeps")
    finally:
        await first.close()
    async with opened(kind, tmp_path / "home") as second:
        found = {"runs": InstanceState.RUNNING, "sleeps": InstanceState.PAUSED}
        assert await states(second) == found
        assert await asyncio.to_thread(status, instance, "t") == 200
