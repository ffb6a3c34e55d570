# SPDX-License-Identifier: Apache-2.0
"""One context: takes its place in the world, then runs cells until the daemon has gone.

Cells run on one event loop that never stops, so that tasks of one cell go on after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

from . import nesting
from .shell import INLINE, RanWithoutShell, Shell
from .wire import Wire, flush_output

READ_SIZE = 1 << 16
_decode = json.JSONDecoder().decode  # code may replace json.loads


def live(
    shell: Shell, connection: int, acknowledgements: int, stdout: int, stderr: int
) -> NoReturn:
    """Be the context behind these descriptors. Never returns."""
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.close(stdout)
    os.close(stderr)
    with socket.socket(fileno=connection) as daemon:
        wire = Wire(daemon, acknowledgements)
        wire.say(type="ready", pid=os.getpid())
        daemon.setblocking(True)
        orders = Orders(daemon)
        _settle(orders.wait())
        Cells(shell, orders, wire).serve()
    os._exit(0)


def _settle(order: dict[str, Any]) -> None:
    """Take over directory, environment and a seed of its own."""
    os.environ.clear()
    os.environ.update(order.get("env", {}))
    os.environ.setdefault("MPLBACKEND", INLINE)
    if order.get("dir"):
        os.chdir(order["dir"])
    sys.path.insert(0, "")
    sys.argv = [""]
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


class Orders:
    """What the daemon tells this context, line by line."""

    def __init__(self, daemon: socket.socket, rest: bytes = b"") -> None:
        self._daemon = daemon
        self._rest = bytearray(rest)
        self.is_taken = False
        """Some of an order was read; whoever has begun with it says that this is over."""

    def wait(self) -> dict[str, Any]:
        """Wait for an order, with nothing else going on."""
        while b"\n" not in self._rest:
            piece = self._daemon.recv(READ_SIZE)
            if not piece:
                os._exit(0)
            self._rest += piece
        return self._take()

    async def next(self) -> dict[str, Any]:
        """Wait for an order while tasks go on."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._rest:
            readable: asyncio.Future[None] = loop.create_future()
            loop.add_reader(self._daemon, _fulfil, readable)
            try:
                await readable
            finally:
                loop.remove_reader(self._daemon)
            self.is_taken = True  # before it is: an interrupt in between is for this order
            piece = self._daemon.recv(READ_SIZE)
            if not piece:
                os._exit(0)
            self._rest += piece
        self.is_taken = True
        return self._take()

    def is_coming(self) -> bool:
        """Say whether the beginning of an order is there."""
        if self._rest or self.is_taken:
            return True
        try:
            return bool(self._daemon.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False

    def _take(self) -> dict[str, Any]:
        line, _, rest = bytes(self._rest).partition(b"\n")
        self._rest = bytearray(rest)
        order: dict[str, Any] = _decode(line.decode())
        return order


def _fulfil(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Cells:
    """Runs cells one after another."""

    def __init__(self, shell: Shell, orders: Orders, wire: Wire) -> None:
        self._shell = shell
        self._orders = orders
        self._wire = wire
        self._loop = asyncio.new_event_loop()
        self._serving: asyncio.Task[None] | None = None
        self._cell: asyncio.Task[Any] | None = None
        """What an interrupt means; None between two cells."""
        self._is_ordered = False
        """A cell was ordered and has not begun."""
        self._is_interrupted = False

    def serve(
        self, answered: Sequence[RanWithoutShell] = (), unanswered: RanWithoutShell | None = None
    ) -> NoReturn:
        """Run the loop for ever; an interrupt that hits a task in the background ends only that.

        What ran before there was a shell comes first; the daemon waits for the end of what is
        unanswered.
        """
        asyncio.set_event_loop(self._loop)
        nesting.allow()
        signal.signal(signal.SIGINT, self._interrupted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self._serving = self._loop.create_task(self._serve(answered, unanswered))
        while not self._serving.done():
            try:
                self._loop.run_until_complete(self._serving)
            except KeyboardInterrupt:
                continue
            except SystemExit:
                continue
            except RuntimeError:  # the code stopped the loop
                if self._serving.done():
                    raise
        os._exit(1)

    async def _serve(
        self, answered: Sequence[RanWithoutShell], unanswered: RanWithoutShell | None
    ) -> None:
        for cell in answered:
            self._shell.ran = cell
            await self._run_cell(cell.code)
        self._shell.wire = self._wire
        if unanswered is not None:
            self._shell.ran = unanswered
            await self._answer(unanswered.code)
        while True:
            try:
                order = await self._orders.next()
            except asyncio.CancelledError:  # the code cancels all tasks there are
                continue
            self._is_ordered = order["type"] == "run"
            self._orders.is_taken = False
            if not self._is_ordered:  # an interrupt of the last cell has come only now
                self._is_interrupted = False
                self._wire.say(type="forgotten")
                continue
            os.environ.update(order.get("env", {}))
            signal.signal(signal.SIGINT, self._interrupted)  # earlier code may have taken it
            await self._answer(order["code"])

    async def _answer(self, code: str) -> None:
        failure = await self._run(code)
        flush_output()
        if not self._wire.is_ours:  # a process that the cell forked came back to here
            os._exit(0)
        self._wire.say(type="done", **({"error": failure} if failure else {}))

    async def _run(self, code: str) -> dict[str, Any] | None:
        self._shell.failure = None
        self._cell = self._loop.create_task(self._run_cell(code))
        self._is_ordered = False
        if self._is_interrupted and self._shell.ran is None:  # before it began
            self._cell.cancel()
        try:
            while not self._cell.done():
                with contextlib.suppress(asyncio.CancelledError):  # as above
                    await asyncio.wait([self._cell])
            broken = _failure(self._cell)
            failure = self._shell.failure or broken
            if failure and failure["ename"] == "CancelledError" and self._is_interrupted:
                return {**failure, "ename": "KeyboardInterrupt"}
            return failure
        finally:
            self._cell = None
            self._is_interrupted = False

    async def _run_cell(self, code: str) -> None:
        shell = self._shell
        shell.cell_count = shell.execution_count
        try:
            transformed = shell.transform_cell(code)
            problem = None
        except Exception:  # noqa: BLE001 - IPython tells it as it does every error
            transformed, problem = code, sys.exc_info()
        result = await shell.run_cell_async(
            code, store_history=True, transformed_cell=transformed, preprocessing_exc_tuple=problem
        )
        error = result.error_before_exec or result.error_in_exec
        if error is not None and shell.failure is None:  # IPython has only printed it
            shell.failure = shell.failure_of(error)
        shell.events.trigger("post_execute")
        shell.events.trigger("post_run_cell", result)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """Stop the cell: where it computes with an exception, where it awaits by cancelling it."""
        __tracebackhide__ = True
        if self._cell is None:  # one that is late, or one that is early
            self._is_interrupted = self._is_ordered or self._orders.is_coming()
            return
        if self._cell.done() or self._shell.ran is not None:  # and its client is being answered
            return
        self._is_interrupted = True
        task = asyncio.current_task(self._loop)
        if task is self._serving:
            self._cell.cancel()  # at once: it is about to begin
            return
        is_in_callback = nesting.is_in_callback(frame)
        if task is None or not is_in_callback:  # perhaps what would have woken the cell
            self._loop.call_soon_threadsafe(self._cell.cancel)
        if is_in_callback:
            raise KeyboardInterrupt


def _failure(cell: asyncio.Task[Any]) -> dict[str, Any] | None:
    """Tell how a cell ended that IPython did not tell of: it was cancelled, or broke IPython."""
    if cell.cancelled():
        return {"ename": "CancelledError", "evalue": "", "traceback": []}
    error = cell.exception()
    if error is None:
        return None
    return {"ename": type(error).__name__, "evalue": str(error), "traceback": []}
