# SPDX-License-Identifier: Apache-2.0
"""One sandbox for each conversation: made when first needed, kept alive while used, then ended."""

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
from anyio.abc import TaskGroup

from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import SandboxException
from opensandbox_mcp.errors import explain, is_gone
from opensandbox_mcp.settings import WorkspaceSettings

SHORTEST_LIFE = timedelta(minutes=1)  # what a server takes; we end an idle one ourselves
END_SECONDS = 10.0  # bounds ending one workspace; its time to live ends it otherwise

logger = logging.getLogger(__name__)


class Workspace:
    """The sandbox of one conversation, or the place for it."""

    def __init__(self, settings: WorkspaceSettings) -> None:
        """Start without a sandbox."""
        self.sandbox: Sandbox | None = None
        self.is_kept = settings.is_kept
        self.making = anyio.Lock()
        self._timeout = settings.timeout.total_seconds()
        self._calls = 0
        self._used_at = time.monotonic()

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """Count as used from now until the call is over."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._used_at = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """Whether nobody used it for its whole time to live."""
        return not self._calls and time.monotonic() - self._used_at >= self._timeout

    async def end(self) -> None:
        """Kill the sandbox, unless it is to be kept, and close the connections. Never fails.

        One that is just being made is ended once it is there.
        """
        with anyio.CancelScope(shield=True), anyio.move_on_after(END_SECONDS):
            async with self.making:
                sandbox, self.sandbox = self.sandbox, None
            if sandbox is None:
                return
            try:
                await (sandbox.close() if self.is_kept else sandbox.destroy())
            except SandboxException as error:
                if not is_gone(error):
                    logger.warning("workspace %s was not ended: %s", sandbox.id, explain(error))


class Workspaces:
    """The workspaces of all conversations. Enter it to have them ended when it is left."""

    def __init__(self, settings: WorkspaceSettings, connection: ConnectionConfig) -> None:
        """Make sandboxes as ``settings`` say."""
        self._settings = settings
        self._connection = connection
        self._lifetime = max(settings.timeout, SHORTEST_LIFE)
        self._workspaces: dict[str, Workspace] = {}

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Workspaces"]:
        """Keep workspaces alive inside the block and end them all after it."""
        async with anyio.create_task_group() as group:
            self._group: TaskGroup = group
            try:
                yield self
            finally:
                group.cancel_scope.cancel()
                await self._end_all()

    @asynccontextmanager
    async def use(self, conversation: str) -> AsyncIterator[Sandbox]:
        """Lend a conversation its sandbox; one that has ended is replaced by the next call."""
        workspace = self._workspaces.setdefault(conversation, Workspace(self._settings))
        async with workspace.in_use():
            sandbox = await self._sandbox_of(conversation, workspace)
            try:
                yield sandbox
            except SandboxException as error:
                if is_gone(error):
                    await self.end(conversation)
                raise

    def keep(self, conversation: str, keep: bool) -> None:
        """Say whether the workspace of a conversation, which has one, outlives it."""
        self._workspaces[conversation].is_kept = keep

    async def end(self, conversation: str) -> None:
        """End the workspace of a conversation, if there is one."""
        workspace = self._workspaces.pop(conversation, None)
        if workspace is not None:
            await workspace.end()

    async def kill(self, conversation: str) -> None:
        """Kill the sandbox of a conversation, kept or not; the next call gets a fresh one."""
        workspace = self._workspaces.pop(conversation, None)
        if workspace is not None:
            workspace.is_kept = False
            await workspace.end()

    async def _sandbox_of(self, conversation: str, workspace: Workspace) -> Sandbox:
        async with workspace.making:
            if workspace.sandbox is not None:
                return workspace.sandbox
            # A call that is cancelled meanwhile leaves the sandbox to the next one.
            with anyio.CancelScope(shield=True):
                made = workspace.sandbox = await Sandbox.create(
                    self._settings.image,
                    timeout=self._lifetime,
                    env=dict(self._settings.env),
                    metadata={"made-by": "opensandbox-mcp"},
                    connection_config=self._connection,
                )
            self._group.start_soon(self._keep_alive, conversation, workspace)
            return made

    async def _keep_alive(self, conversation: str, workspace: Workspace) -> None:
        """Renew the sandbox while it is in use, and end it when nobody has used it for long."""
        sandbox = workspace.sandbox
        assert sandbox is not None, "it was just made"
        while not workspace.is_idle:
            await anyio.sleep(self._settings.timeout.total_seconds() / 3)
            if workspace.sandbox is not sandbox:
                return  # it was ended; the conversation may have another one
            try:
                await sandbox.renew(self._lifetime)
            except SandboxException as error:
                logger.warning("workspace %s was not renewed: %s", sandbox.id, explain(error))
                if is_gone(error):
                    break
        await self.end(conversation)

    async def _end_all(self) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for conversation in list(self._workspaces):
                    group.start_soon(self.end, conversation)
