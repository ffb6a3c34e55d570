# SPDX-License-Identifier: Apache-2.0
"""The sandboxes that tools work on: those held by this process, or that of the conversation."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self, TypeVar

from mcp.server.mcpserver import Context

from opensandbox import Sandbox, SandboxManager
from opensandbox.exceptions import InvalidArgumentException, SandboxException
from opensandbox_mcp.errors import is_gone
from opensandbox_mcp.settings import Settings
from opensandbox_mcp.workspaces import Workspaces

T = TypeVar("T")

WORKSPACE = "workspace"
"""The id that stands for the conversation's own sandbox, in workspace mode."""

MAX_HELD = 1000
"""Sandboxes with open connections; many of them have long ended by themselves."""

SESSION_HEADER = "mcp-session-id"


class Sandboxes:
    """Everything a tool needs to reach a sandbox."""

    def __init__(self, settings: Settings, manager: SandboxManager, workspaces: Workspaces | None):
        """Hold nothing yet; most callers want ``open``."""
        self.connection = settings.connection
        self.manager = manager
        self.workspaces = workspaces
        self._held: dict[str, Sandbox] = {}
        self._detached: set[asyncio.Task[Any]] = set()

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator[Self]:
        """Let tools work inside the block; close connections and end workspaces after it."""
        async with AsyncExitStack() as stack:
            manager = await SandboxManager.create(settings.connection)
            await stack.enter_async_context(manager)
            workspaces = None
            if settings.workspace is not None:
                made = Workspaces(settings.workspace, settings.connection)
                workspaces = await stack.enter_async_context(made.open())
            sandboxes = cls(settings, manager, workspaces)
            stack.push_async_callback(sandboxes._close)
            yield sandboxes

    @property
    def held(self) -> list[str]:
        """The ids of the sandboxes that were created or connected here."""
        return list(self._held)

    async def hold(self, sandbox: Sandbox) -> None:
        """Let later calls find this sandbox. When there are too many, the oldest is let go."""
        self._held[sandbox.id] = sandbox
        if len(self._held) > MAX_HELD:
            await self.forget(next(iter(self._held)))

    async def forget(self, sandbox_id: str) -> None:
        """Close what is held of a sandbox."""
        sandbox = self._held.pop(sandbox_id, None)
        if sandbox is not None:
            await sandbox.close()

    @asynccontextmanager
    async def use(
        self, call: "Call", sandbox_id: str, connect_if_missing: bool
    ) -> AsyncIterator[Sandbox]:
        """Lend the sandbox a call is about."""
        if self.workspaces is not None:
            async with self.workspaces.use(conversation_of(call)) as sandbox:
                yield sandbox
            return
        sandbox = self._held.get(sandbox_id) or await self._connect(sandbox_id, connect_if_missing)
        try:
            yield sandbox
        except SandboxException as error:
            if is_gone(error):
                await self.forget(sandbox_id)
            raise

    @asynccontextmanager
    async def id_of(self, call: "Call", sandbox_id: str) -> AsyncIterator[str]:
        """Lend only the id of the sandbox a call is about; nothing is connected for it."""
        if self.workspaces is None:
            yield sandbox_id
            return
        async with self.workspaces.use(conversation_of(call)) as sandbox:
            yield sandbox.id

    def detach(self, running: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Let something run on after its call, until it ends or this process does."""
        task = asyncio.create_task(running)
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)
        return task

    async def _connect(self, sandbox_id: str, connect_if_missing: bool) -> Sandbox:
        if not connect_if_missing:
            raise InvalidArgumentException(
                f"sandbox {sandbox_id} was not created or connected here; call sandbox_connect,"
                " or pass connect_if_missing=true"
            )
        sandbox = await Sandbox.connect(sandbox_id, self.connection)
        await self.hold(sandbox)
        return sandbox

    async def _close(self) -> None:
        for task in self._detached:
            task.cancel()
        await asyncio.gather(*self._detached, return_exceptions=True)
        for sandbox_id in self.held:
            await self.forget(sandbox_id)


Call = Context[Sandboxes, Any]
"""What a tool knows of the request it answers."""


def sandboxes_of(call: Call) -> Sandboxes:
    """Return what the server holds."""
    return call.request_context.lifespan_context


def conversation_of(call: Call) -> str:
    """Name the conversation of a call: the session over HTTP; a process of its own over stdio."""
    return (call.headers or {}).get(SESSION_HEADER, "")
