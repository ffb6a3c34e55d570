# SPDX-License-Identifier: Apache-2.0
"""The server's end of the launcher: start it, ask it, hear from it. Nothing here blocks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opensandbox_server.host.spawn import Child, spawn
from opensandbox_server.runtimes.base import (
    InstanceUnknown,
    RuntimeFault,
    RuntimeUnavailable,
    WrongState,
)
from opensandbox_server.runtimes.oci import protocol
from opensandbox_server.runtimes.oci.launcher.program import SEARCH_PATH
from opensandbox_server.runtimes.oci.protocol import Description, Result, Verb

log = logging.getLogger(__name__)

READY_SECONDS = 300.0
"""How long the launcher may take to find sandboxes again and make its bridge."""
END_SECONDS = 30.0
"""How long it may take to finish what it is doing when the server ends."""

# -P: the directory the operator happens to be in may have modules of a stranger.
LAUNCHER: Sequence[str] = (
    sys.executable,
    "-P",
    "-s",
    "-m",
    "opensandbox_server.runtimes.oci.launcher",
)
"""How the launcher is started."""


class LauncherRefused(RuntimeFault):
    """The launcher could not do it; the message says why."""


_FAULTS: dict[str, type[RuntimeFault]] = {"unknown": InstanceUnknown, "ended": WrongState}


class LauncherGone(RuntimeFault):
    """The launcher ended in the middle of a request; another one is being started."""


class LauncherClient:
    """One launcher process and the requests it has not answered."""

    def __init__(
        self,
        tell: Callable[[Description], None],
        logged: Callable[[str], None],
        gone: Callable[[], None],
        command: Sequence[str],
    ) -> None:
        """Ends go to tell, names of sandboxes that wrote to logged; gone is called at the end.

        The process has hung up then, and has yet to be closed.
        """
        self._command = command
        self._tell = tell
        self._logged = logged
        self._gone = gone
        self._channel: socket.socket | None = None
        self._child: Child | None = None
        self._reader: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._seq = 0

    async def open(self, setup: protocol.Setup) -> None:
        """Start the process and wait until it is ready. Raises RuntimeUnavailable."""
        try:
            self._spawn()
            await self._send(asdict(setup), ())
            first = await asyncio.wait_for(self._first_word(), READY_SECONDS)
            if "error" in first:
                raise RuntimeUnavailable(str(first["error"]))
        except (EOFError, OSError, LauncherGone) as fault:
            await self._end()
            why = f": {fault.strerror}" if isinstance(fault, OSError) and fault.strerror else ""
            raise RuntimeUnavailable(
                f"the launcher of the embedded runtime did not start{why}"
            ) from fault
        except BaseException:
            await self._end()
            raise
        self._reader = asyncio.create_task(self._listen(), name="oci launcher")

    def _spawn(self) -> None:
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        with theirs:
            # stderr is ours: what it says there is an error of our own making.
            self._child = spawn(
                self._command, _environment(), fds={3: theirs.fileno()}, has_own_session=True
            )

    async def _first_word(self) -> dict[str, Any]:
        """Return whether it is ready; a sandbox it found again may end even before that."""
        while "event" in (message := await self._receive()):
            self._tell(protocol.read_description(message["event"]))
        return message

    async def ask(self, verb: Verb[Result], fds: Sequence[int] = ()) -> Result:
        """Ask for one thing and return its result. Raises the fault it was answered with."""
        self._seq += 1
        seq = self._seq
        answered = self._waiting[seq] = asyncio.get_running_loop().create_future()
        try:
            if self._channel is None:
                raise LauncherGone("the launcher of the embedded runtime is not running")
            await self._send({"seq": seq, **protocol.verb_to_plain(verb)}, fds)
            return verb.read(await answered)
        finally:
            self._waiting.pop(seq, None)
            if answered.done() and not answered.cancelled():
                answered.exception()  # sending may have failed first, and nobody waits for it

    async def close(self) -> None:
        """Let it finish and end; sandboxes go on."""
        if self._reader:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        self._fail_all()
        await self._end()

    async def _end(self) -> None:
        if self._channel:
            self._channel.close()
            self._channel = None
        if self._child:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._child.wait(), END_SECONDS)
                return
            await self._child.end(0)

    async def _listen(self) -> None:
        try:
            while True:
                self._take(await self._receive())
        except (EOFError, OSError):
            pass
        except Exception:  # what it says cannot be understood, so it is of no use
            log.exception("the launcher of the embedded runtime is replaced")
        self._fail_all()
        self._gone()

    def _take(self, message: dict[str, Any]) -> None:
        if "event" in message:
            self._tell(protocol.read_description(message["event"]))
            return
        if "logged" in message:
            self._logged(message["logged"])
            return
        answered = self._waiting.get(message.get("seq", 0))
        if answered is None or answered.done():
            return
        if "error" in message:
            answered.set_exception(_FAULTS.get(message["kind"], LauncherRefused)(message["error"]))
        else:
            answered.set_result(message["result"])

    def _fail_all(self) -> None:
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(LauncherGone("the launcher of the embedded runtime ended"))

    async def _send(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        channel = self._channel
        if channel is None:
            raise LauncherGone("the launcher of the embedded runtime is not running")
        data = protocol.encode(message)
        async with self._sending:
            if channel.fileno() < 0:  # closed while others were sending
                raise LauncherGone("the launcher of the embedded runtime ended")
            try:
                # A cancelled sender must not leave half a message behind.
                await asyncio.shield(self._send_whole(channel, data, fds))
            except (BrokenPipeError, ConnectionResetError) as fault:
                raise LauncherGone("the launcher of the embedded runtime ended") from fault

    async def _send_whole(self, channel: socket.socket, data: bytes, fds: Sequence[int]) -> None:
        while True:
            try:
                sent = socket.send_fds(channel, [data], fds) if fds else channel.send(data)
                break
            except BlockingIOError:
                await _writable(channel)
        if sent < len(data):
            await asyncio.get_running_loop().sock_sendall(channel, data[sent:])

    async def _receive(self) -> dict[str, Any]:
        (size,) = protocol.LENGTH.unpack(await self._exactly(protocol.LENGTH.size))
        message: dict[str, Any] = json.loads(await self._exactly(size))
        return message

    async def _exactly(self, size: int) -> bytes:
        loop, parts = asyncio.get_running_loop(), bytearray()
        while len(parts) < size:
            if self._channel is None:
                raise EOFError
            part = await loop.sock_recv(self._channel, size - len(parts))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)


async def _writable(channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(channel, ready.set_result, None)
    try:
        await ready
    finally:
        loop.remove_writer(channel)


def _environment() -> dict[str, str]:
    """Let it find this package, wherever it was imported from, and nothing of our secrets."""
    package = Path(__file__).resolve().parents[3]
    kept = {name: os.environ[name] for name in ("LANG", "VIRTUAL_ENV") if name in os.environ}
    own = {"PATH": SEARCH_PATH, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    return kept | own
