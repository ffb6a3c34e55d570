# SPDX-License-Identifier: Apache-2.0
"""Giving up, with the real server: Ctrl-C in a program, a cancelled task."""

import asyncio
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from opensandbox import Sandbox, SandboxManager
from opensandbox.models import ExecutionHandlers, ExecutionInit, SandboxFilter
from tests.harness.server import Server

WAIT_SECONDS = 60.0  # bounds waiting for something that must happen

PROGRAM = """
from opensandbox import SandboxSync
from opensandbox.models import ExecutionHandlersSync

sandbox = SandboxSync.connect({sandbox_id!r})
handlers = ExecutionHandlersSync(on_init=lambda init: print(init.id, flush=True))
sandbox.commands.run("exec sleep 600", handlers=handlers)
"""


@pytest.mark.anyio
async def test_ctrl_c_ends_the_command_it_waits_for(served: Server) -> None:
    async with Sandbox.temporary("host", connection_config=served.config) as sandbox:
        program = PROGRAM.format(sandbox_id=sandbox.id)
        with subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            assert running.stdout is not None
            execution_id = running.stdout.readline().strip()
            running.send_signal(signal.SIGINT)
            _, stderr = running.communicate(timeout=WAIT_SECONDS)
        assert "KeyboardInterrupt" in stderr
        assert (await sandbox.commands.follow(execution_id)).exit_code == -1


@pytest.mark.anyio
async def test_a_cancelled_task_ends_its_command(served: Server) -> None:
    async with Sandbox.temporary("host", connection_config=served.config) as sandbox:
        began: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def on_init(init: ExecutionInit) -> None:
            began.set_result(init.id)

        handlers = ExecutionHandlers(on_init=on_init)
        running = asyncio.create_task(sandbox.commands.run("sleep 600", handlers=handlers))
        execution_id = await began
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await sandbox.commands.follow(execution_id)).exit_code == -1


@pytest.mark.anyio
async def test_a_cancelled_create_leaves_no_sandbox(served: Server) -> None:
    metadata = {"test": "cancelled-create"}
    async with await SandboxManager.create(served.config) as manager:
        for turns in (0, 5, 20, 50):
            creating = asyncio.create_task(
                Sandbox.create("host", metadata=metadata, connection_config=served.config)
            )
            for _ in range(turns):
                await asyncio.sleep(0.001)  # a little further each time
            creating.cancel()
            with suppress(asyncio.CancelledError):  # unless it was faster
                await (await creating).destroy()
            page = await manager.list_sandbox_infos(SandboxFilter(metadata=metadata))
            assert page.sandbox_infos == []
