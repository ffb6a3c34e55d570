# SPDX-License-Identifier: Apache-2.0
"""A caller that gives up leaves nothing behind. Only the async half can be given up on."""

import asyncio
import secrets

import pytest

from opensandbox import Sandbox
from opensandbox.models.execd import ExecutionHandlers, ExecutionInit, OutputMessage
from tests.harness.lifecycle import StandIn

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


async def test_giving_up_on_a_command_ends_it(standin: StandIn) -> None:
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
    assert (await sandbox.commands.follow(execution_id)).exit_code == -1
    assert standin.sandboxes
    await sandbox.destroy()


async def test_giving_up_on_a_session_ends_what_it_runs_and_not_the_session(
    standin: StandIn,
) -> None:
    sandbox = await Sandbox.create("image")
    session = await sandbox.commands.create_session()
    began = asyncio.Event()

    async def on_stdout(_: OutputMessage) -> None:
        began.set()

    handlers = ExecutionHandlers(on_stdout=on_stdout)
    text = "x=kept; echo began; sleep 600"
    running = asyncio.create_task(sandbox.commands.run_in_session(session, text, handlers=handlers))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await sandbox.commands.run_in_session(session, "echo again")).text == "again"
    assert standin.sandboxes
    await sandbox.destroy()


async def test_giving_up_before_a_command_has_said_anything_ends_it_too(
    standin: StandIn,
) -> None:
    sandbox = await Sandbox.create("image")
    mark = secrets.randbelow(10**12)  # other tests sleep too
    for delay in range(6):
        running = asyncio.create_task(sandbox.commands.run(f"exec sleep 600.{mark}"))
        for _ in range(delay * 3):
            await asyncio.sleep(0)  # a little further each time
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    gone = f"for n in $(seq 200); do pgrep -f 'sleep 600[.]{mark}' || exit 0; sleep 0.05; done"
    assert (await sandbox.commands.run(f"{gone}; exit 1")).exit_code == 0
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
