# SPDX-License-Identifier: Apache-2.0
"""Ingress: starts the program, keeps it alive, and tells it every route."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from opensandbox_server.errors import IngressUnavailable, OpenSandboxError, StartupError
from opensandbox_server.host.spawn import Child, spawn
from opensandbox_server.host.supervision import Supervised
from opensandbox_server.ingress.channel import Channel, ChannelClosed, MessageRefused, OnActivity
from opensandbox_server.ingress.config import (
    CONTROL_FD,
    LISTEN_FD,
    RUN_DIR_FD,
    IngressConfig,
    arguments,
)
from opensandbox_server.ingress.routes import Route

ACK_SECONDS = 10.0
"""How long a route may take to be in force, a restart of ingress included."""


class IngressEnded(OpenSandboxError):
    """An ingress process is gone, or could not be started; the next one is on its way."""


class Ingress:
    """Supervises one ingress process at a time. Routes put before it runs are its first table."""

    def __init__(self, config: IngressConfig) -> None:
        """Take how it is started; open_ingress starts it."""
        self._config = config
        self._table: dict[str, Route] = {}
        self._channel: Channel | None = None
        self._is_open = asyncio.Event()
        self._is_wanted = False
        self._has_outcome = asyncio.Event()
        self._fault: str = ""

    async def put(self, route: Route) -> None:
        """Add or replace a route; in force when it returns."""
        self._table[route.id] = route
        await self._tell("put", route=self._to_wire(route))

    async def delete(self, sandbox_id: str) -> None:
        """Take a route away; no request passes once it returns."""
        if self._table.pop(sandbox_id, None):
            await self._tell("delete", id=sandbox_id)

    async def run(self, on_activity: OnActivity) -> None:
        """Start ingress again whenever it ends, until cancelled; it reports whom clients used."""
        self._is_wanted = True
        try:
            await Supervised("ingress", lambda: self._live_once(on_activity)).run()
        finally:
            self._is_wanted = False

    @property
    def is_open(self) -> bool:
        """True while requests pass."""
        return self._is_open.is_set()

    @property
    def streams(self) -> Mapping[str, Mapping[str, int]]:
        """By kind, how many streams to sandboxes are open and were begun; at most a second old."""
        return self._channel.streams if self._channel else {}

    async def wait_open(self) -> None:
        """Return once every route is in force. Raises StartupError when its first life ends."""
        await self._has_outcome.wait()
        if not self._is_open.is_set():
            raise StartupError(f"cannot open the public port: ingress {self._fault}")

    async def _live_once(self, on_activity: OnActivity) -> None:
        """Start one ingress and stay with it. Raises IngressEnded: that is its only end."""
        self._fault = "failed"
        try:
            self._fault = await self._until_it_ends(on_activity)
        except OSError as fault:
            self._fault = f"cannot be started: {fault.strerror}"
        finally:
            self._has_outcome.set()
        raise IngressEnded(self._fault)

    async def _until_it_ends(self, on_activity: OnActivity) -> str:
        child, ours = self._spawn()
        why = "closed its control channel"
        try:
            channel = await Channel.connect(ours, on_activity)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(channel.listen(), name="ingress channel")
                    tasks.create_task(self._introduce(channel), name="ingress routes")
            except* (ChannelClosed, MessageRefused) as refusals:
                why = f"did not take its routes: {refusals.exceptions[0]}".rstrip(": ")
            finally:
                self._is_open.clear()
                self._channel = None
                channel.close()
        finally:
            status = await asyncio.shield(child.end(self._config.grace_seconds))
        return f"{why} (status {status})"

    async def _introduce(self, channel: Channel) -> None:
        await channel.request("config", **self._config.settings)
        routes = [self._to_wire(route) for route in self._table.values()]
        self._channel = channel  # changes from here on go out after the whole table
        await channel.request("replace", routes=routes)
        self._is_open.set()
        self._has_outcome.set()

    async def _tell(self, op: str, **values: Any) -> None:
        if not self._is_wanted:
            return
        try:
            async with asyncio.timeout(ACK_SECONDS):
                while True:
                    await self._is_open.wait()
                    with contextlib.suppress(ChannelClosed):
                        if self._channel:
                            await self._channel.request(op, **values)
                            return
                    # It died: the next one gets the whole table, and then this once more.
                    await asyncio.sleep(0)
        except TimeoutError as fault:
            raise IngressUnavailable(
                "Ingress does not take routes right now; try again."
            ) from fault
        except MessageRefused as fault:
            raise IngressUnavailable(f"Ingress refused a route: {fault}.") from fault

    def _spawn(self) -> tuple[Child, socket.socket]:
        config = self._config
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as passed_on:
            run_dir = os.open(config.run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            passed_on.callback(os.close, run_dir)
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            passed_on.callback(theirs.close)
            fds = {
                LISTEN_FD: config.listener.fileno(),
                CONTROL_FD: theirs.fileno(),
                RUN_DIR_FD: run_dir,
            }
            child = spawn(arguments(config), {"PATH": os.defpath}, fds=fds)
            undo.pop_all()
        return child, ours

    def _to_wire(self, route: Route) -> dict[str, str]:
        return {
            "id": route.id,
            "socket": self._as_ingress_sees(route.socket) if route.socket else "",
            "tcp": route.tcp or "",
            "state": "paused" if route.is_paused else "running",
            "execdToken": route.execd_token,
            "secureToken": route.secure_token,
            "egress": "",
        }

    def _as_ingress_sees(self, path: Path) -> str:
        # Through a descriptor: the directories above may be closed to an unprivileged process, and
        # the address of a socket must be short.
        if path.is_relative_to(self._config.run_dir):
            return f"/proc/self/fd/{RUN_DIR_FD}/{path.relative_to(self._config.run_dir)}"
        return str(path)


@contextlib.asynccontextmanager
async def open_ingress(
    ingress: Ingress, on_activity: OnActivity
) -> AsyncIterator[asyncio.Task[None]]:
    """Run ingress; ready when this is entered, gone when it is left. Raises StartupError.

    Yields the task that keeps it running, which has no end of its own.
    """
    life = asyncio.create_task(ingress.run(on_activity), name="ingress")
    try:
        async with asyncio.timeout(ACK_SECONDS):
            await ingress.wait_open()
        yield life
    except TimeoutError as fault:
        raise StartupError("cannot open the public port: ingress does not answer") from fault
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
