# SPDX-License-Identifier: Apache-2.0
"""The fake runtime leaves no process behind, and never keeps the event loop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from opensandbox_server.host.programs import find_program
from opensandbox_server.runtimes.base import InstanceState, SandboxSpec, Secrets, StartFailed
from opensandbox_server.runtimes.fake import FakeRuntime
from opensandbox_server.runtimes.process_tree import processes_with
from server.tests.world import make_runtime
from tests.harness.wait import eventually_async

pytestmark = pytest.mark.anyio

SPEC = SandboxSpec("one", "any", ("tail", "-f", "/dev/null"))
SECRETS = Secrets("t")


async def opened(data_dir: Path) -> FakeRuntime:
    execd = find_program("execd")
    if execd is None:
        pytest.skip("execd is not built; make build")
    runtime = make_runtime(data_dir, execd)
    await runtime.prepare()
    return runtime


def started_by(data_dir: Path) -> list[int]:
    return processes_with(f"EXECD_ENVS={data_dir / 'sandboxes' / 'one' / 'env'}")


def execd_of(data_dir: Path) -> int:
    """Find execd by what is written down of it."""
    record = json.loads((data_dir / "sandboxes" / "one" / "instance.json").read_text())
    return int(record["pid"])


async def test_what_a_killed_execd_started_is_ended(tmp_path: Path) -> None:
    runtime = await opened(tmp_path)
    events = runtime.watch()
    await runtime.start(SPEC, SECRETS)
    assert started_by(tmp_path)
    os.kill(execd_of(tmp_path), signal.SIGKILL)
    ended = await asyncio.wait_for(anext(events), 20)
    assert (ended.instance.state, ended.instance.exit_code) == (InstanceState.EXITED, 137)
    await eventually_async(lambda: not started_by(tmp_path))
    await runtime.stop("one")
    await runtime.close()


async def test_what_an_execd_started_that_was_killed_between_two_servers_is_ended(
    tmp_path: Path,
) -> None:
    first = await opened(tmp_path)
    await first.start(SPEC, SECRETS)
    execd = execd_of(tmp_path)
    await first.close()
    os.kill(execd, signal.SIGKILL)
    os.waitpid(execd, 0)
    assert started_by(tmp_path)
    second = await opened(tmp_path)
    assert [each.state for each in await second.instances()] == [InstanceState.EXITED]
    await eventually_async(lambda: not started_by(tmp_path))
    await second.stop("one")
    await second.close()


async def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    runtime = await opened(tmp_path)
    with pytest.raises(StartFailed, match=r"status 127: .*no-such-program"):
        await runtime.start(replace(SPEC, entrypoint=("no-such-program",)), SECRETS)
    assert await runtime.instances() == []
    assert list((tmp_path / "sandboxes").iterdir()) == []
    assert list((tmp_path / "run" / "sandboxes").iterdir()) == []
    await runtime.close()


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    runtime = await opened(tmp_path)
    for steps in range(8):
        starting = asyncio.create_task(runtime.start(SPEC, SECRETS))
        for _ in range(steps):
            await asyncio.sleep(0.001)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        if await runtime.instances():  # it had been started by then
            await runtime.stop("one")
        assert list((tmp_path / "sandboxes").iterdir()) == []
        assert not started_by(tmp_path)
    await runtime.close()
