# SPDX-License-Identifier: Apache-2.0
"""A caller that gives up leaves nothing behind. Only the async half can be given up on."""

import asyncio

import pytest

from opensandbox import Sandbox
from opensandbox.models.execd import ExecutionHandlers, ExecutionInit
from sdks.python.tests.standin import StandIn

pytestmark = pytest.mark.anyio


async def test_giving_up_on_a_create_kills_the_sandbox(standin: StandIn) -> None:
    asked = asyncio.Event()

    async def never_well(_: Sandbox) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    creating = asyncio.create_task(Sandbox.create("image", health_check=never_well))
    await asked.wait()
    assert len(standin.sandboxes) == 1
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert standin.sandboxes == {}


async def test_giving_up_on_a_command_leaves_it_running(standin: StandIn) -> None:
    sandbox = await Sandbox.create("image")
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def on_init(init: ExecutionInit) -> None:
        started.set_result(init.id)

    running = asyncio.create_task(
        sandbox.commands.run("exec sleep 600", handlers=ExecutionHandlers(on_init=on_init))
    )
    execution_id = await started
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await sandbox.commands.get_command_status(execution_id)).running
    await sandbox.commands.interrupt(execution_id)
    await sandbox.commands.replay(execution_id, follow=True)
    assert not (await sandbox.commands.get_command_status(execution_id)).running
    assert standin.sandboxes
    await sandbox.destroy()


async def test_many_run_at_once_over_one_sandbox(standin: StandIn) -> None:
    sandbox = await Sandbox.create("image")
    executions = await asyncio.gather(
        *(sandbox.commands.run(["echo", str(number)]) for number in range(50))
    )
    assert [execution.text for execution in executions] == [str(n) for n in range(50)]
    await sandbox.destroy()
    assert standin.sandboxes == {}
