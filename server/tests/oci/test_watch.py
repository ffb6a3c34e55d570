# SPDX-License-Identifier: Apache-2.0
"""News of sandboxes that ended: each once, with any launcher."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import InstanceState, LogPart, RuntimeEvent, RuntimeFault
from opensandbox_server.runtimes.oci.runtime import OCIRuntime
from server.tests.runtimes.runtimes import all_parts, opened, start, status, until
from tests.harness.wait import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
async def oci(network: int, tmp_path: Path) -> AsyncIterator[OCIRuntime]:
    """The embedded runtime."""
    assert network >= 0
    async with opened(OCIRuntime, tmp_path / "home") as ready:
        assert isinstance(ready, OCIRuntime)
        yield ready


async def next_end(events: AsyncIterator[RuntimeEvent]) -> tuple[str, int | None]:
    async with asyncio.timeout(PATIENCE):
        instance = (await anext(events)).instance
    assert instance.state is InstanceState.EXITED
    return instance.id, instance.exit_code


def kill_launcher(runtime: OCIRuntime) -> None:
    assert runtime._client
    assert runtime._client._child
    runtime._client._child.send(signal.SIGKILL)


def kill_sandbox(data: Path, name: str) -> None:
    record = json.loads((data / "sandboxes" / name / "state.json").read_text())
    pidfd = os.pidfd_open(record["pid"])
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)


@contextlib.contextmanager
def no_more_descriptors() -> Iterator[None]:
    """Let this process open no further file, for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_an_end_is_told_once_also_when_the_launcher_is_replaced(
    oci: OCIRuntime,
) -> None:
    events, former = oci.watch(), oci._client
    await start(oci, "first", ("sh", "-c", "sleep 0.1; exit 3"))
    assert await next_end(events) == ("first", 3)
    kill_launcher(oci)
    await until(lambda: oci._client not in (None, former))
    await start(oci, "second", ("sh", "-c", "sleep 0.1; exit 4"))
    assert await next_end(events) == ("second", 4)


async def test_what_ends_while_there_is_no_launcher_is_told_by_the_next_one(
    oci: OCIRuntime, tmp_path: Path
) -> None:
    events = oci.watch()
    await start(oci, "unseen")
    kill_launcher(oci)
    kill_sandbox(tmp_path / "home", "unseen")
    assert await next_end(events) == ("unseen", None)


async def test_output_is_followed_from_one_launcher_to_the_next(oci: OCIRuntime) -> None:
    script = "echo first; until [ -e /go ]; do sleep 0.05; done; echo second; exit 1"
    instance = await start(oci, "one", ("sh", "-c", script))
    parts = oci.logs("one", follow=True)
    assert await anext(parts) == LogPart(0, b"first\n")
    following = asyncio.create_task(all_parts(parts))
    await asyncio.sleep(0)
    former = oci._client
    kill_launcher(oci)
    await until(lambda: oci._client not in (None, former))
    command = {"command": "touch /go"}
    assert await asyncio.to_thread(status, instance, "t", "/command", command) == 200
    assert await following == [LogPart(6, b"second\n")]


async def test_nobody_waits_for_a_runtime_that_was_closed(oci: OCIRuntime) -> None:
    await start(oci, "one", ("sh", "-c", "while :; do echo more; sleep 0.01; done"))
    following = [asyncio.create_task(all_parts(oci.logs("one", follow=True))) for _ in "ab"]
    await asyncio.sleep(0.2)
    await oci.close()
    async with asyncio.timeout(PATIENCE):
        for outcome in await asyncio.gather(*following, return_exceptions=True):
            assert isinstance(outcome, RuntimeFault)
    await oci.prepare()
    await oci.stop("one")


async def test_a_launcher_that_cannot_be_started_now_is_started_later(
    oci: OCIRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    await start(oci, "stays")
    with no_more_descriptors():
        kill_launcher(oci)
        await until(lambda: "Too many open files" in caplog.text)
        assert oci.trouble
    async with asyncio.timeout(PATIENCE):
        assert [each.id for each in await oci.instances()] == ["stays"]
    assert not oci.trouble
    await start(oci, "another")


async def test_a_launcher_that_lost_the_maker_of_namespaces_makes_room_for_the_next(
    oci: OCIRuntime,
) -> None:
    await start(oci, "stays")
    former = oci._client
    assert former
    assert former._child
    os.kill(maker_of_namespaces(former._child.pid), signal.SIGKILL)
    await until(lambda: oci._client not in (None, former))
    await start(oci, "another")
    await start(oci, "more-than-are-made-ahead")
    assert len(await oci.instances()) == 3


def maker_of_namespaces(launcher: int) -> int:
    """Find the child of the launcher that is a copy of it."""
    own = Path(f"/proc/{launcher}/cmdline").read_bytes()
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    (found,) = [pid for pid in children if Path(f"/proc/{pid}/cmdline").read_bytes() == own]
    return int(found)
