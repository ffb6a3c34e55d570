# SPDX-License-Identifier: Apache-2.0
"""A caller that gives up, or loses its connection, while code runs."""

import asyncio
import signal
import subprocess
import sys

import pytest

from code_interpreter import CodeInterpreter
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import SandboxConnectionException
from opensandbox.models import CodeContext, ExecutionHandlers, OutputMessage
from sdks.python.tests.cutting import run_cutter
from tests.harness.server import API_KEY, Server

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 60.0  # bounds waiting for something that must happen
ENDLESS = "x = 5\nprint('here', flush=True)\nwhile True: pass"

PROGRAM = """
from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.models import CodeContext, ExecutionHandlersSync

config = ConnectionConfigSync(domain={domain!r}, api_key={key!r})
sandbox = SandboxSync.connect({sandbox_id!r}, config)
handlers = ExecutionHandlersSync(on_stdout=lambda message: print(message.text, flush=True))
context = CodeContext(id={context_id!r}, language="python")
sandbox.codes.run({code!r}, context=context, handlers=handlers)
"""


async def _begin(interpreter: CodeInterpreter, context: CodeContext) -> "asyncio.Task[object]":
    """Run code that never ends, and return when it has begun."""
    began = asyncio.Event()

    async def on_stdout(_: OutputMessage) -> None:
        began.set()

    handlers = ExecutionHandlers(on_stdout=on_stdout)
    running: asyncio.Task[object] = asyncio.create_task(
        interpreter.codes.run(ENDLESS, context=context, handlers=handlers)
    )
    await began.wait()
    return running


async def _cancel(running: "asyncio.Task[object]") -> None:
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_cancelled_run_is_interrupted_and_keeps_its_state(server: Server) -> None:
    async with Sandbox.temporary("host", connection_config=server.config) as sandbox:
        interpreter = await CodeInterpreter.create(sandbox)
        context = await interpreter.codes.create_context("python")
        await _cancel(await _begin(interpreter, context))
        assert (await interpreter.codes.run("x", context=context)).text == "5"


async def test_a_run_that_waits_is_cancelled_without_harm_to_the_one_that_runs(
    server: Server,
) -> None:
    async with Sandbox.temporary("host", connection_config=server.config) as sandbox:
        interpreter = await CodeInterpreter.create(sandbox)
        context = await interpreter.codes.create_context("python")
        first = await _begin(interpreter, context)
        waiting: asyncio.Task[object] = asyncio.create_task(
            interpreter.codes.run("x = 'never'", context=context)
        )
        # Another request that is made after it has been answered: the run had its chance to begin.
        await interpreter.codes.list_contexts()
        await _cancel(waiting)
        assert not first.done()
        await _cancel(first)
        assert (await interpreter.codes.run("x", context=context)).text == "5"


async def test_ctrl_c_interrupts_the_code_it_waits_for(server: Server) -> None:
    async with Sandbox.temporary("host", connection_config=server.config) as sandbox:
        context = await sandbox.codes.create_context("python")
        program = PROGRAM.format(
            domain=server.domain,
            key=API_KEY,
            sandbox_id=sandbox.id,
            context_id=context.id,
            code=ENDLESS,
        )
        with subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == "here\n"
            running.send_signal(signal.SIGINT)
            _, stderr = running.communicate(timeout=WAIT_SECONDS)
        assert "KeyboardInterrupt" in stderr
        assert (await sandbox.codes.run("x", context=context)).text == "5"


async def test_a_lost_stream_is_told_with_what_to_do(server: Server) -> None:
    with run_cutter(server.domain) as cutter:
        config = ConnectionConfig(
            domain=cutter.address, api_key=API_KEY, use_server_proxy=True, disable_metrics=True
        )
        async with Sandbox.temporary("host", connection_config=config) as sandbox:
            context = await sandbox.codes.create_context("python")
            cutter.cut_after([2000])
            code = "for n in range(2000): print(n)\nx = 5"
            with pytest.raises(SandboxConnectionException, match=r"codes\.interrupt") as lost:
                await sandbox.codes.run(code, context=context)
            assert lost.value.is_retryable
            assert cutter.cuts == 1
            cutter.cut_after([])
            assert (await sandbox.codes.run("x", context=context)).text == "5"
