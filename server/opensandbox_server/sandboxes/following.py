# SPDX-License-Identifier: Apache-2.0
"""What other servers do with the same sandboxes, heard from a store that several share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace

from opensandbox_server.errors import IngressUnavailable, QueryFault
from opensandbox_server.ingress.routes import Routes
from opensandbox_server.runtimes.base import Instance, InstanceUnknown, Runtime
from opensandbox_server.sandboxes import states
from opensandbox_server.sandboxes.runtime_faults import faults_of_runtime
from opensandbox_server.sandboxes.sandbox import Sandbox, refresh_route
from opensandbox_server.store.store import Changes, Store
from opensandbox_server.store.stored import StoredSandbox


class Following:
    """Keeps the sandboxes that a server knows as the store has them.

    Where the store is this server's alone, there is nothing to hear, and nothing is asked.
    """

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        routes: Routes,
        sandboxes: dict[str, Sandbox],
        schedule: Callable[[str, StoredSandbox | None], None],
    ) -> None:
        """Take the sandboxes that are known, which it changes, and what plans their ends."""
        self._store = store
        self._runtime = runtime
        self._routes = routes
        self._sandboxes = sandboxes
        self._schedule = schedule
        self._position: str | None = None
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        self._was_heard = asyncio.Event()
        self._late: dict[str, None] = {}  # an ordered set: those that were busy when heard of
        self._is_late = asyncio.Event()

    async def catch_up(self) -> None:
        """Return when everything that was stored before this call is known. Raises StoreFault.

        All who come before a look begins share it.
        """
        if not self._store.is_shared:
            return
        if self._next is None:
            self._next = asyncio.create_task(self._look(), name="look for changes")
            self._next.add_done_callback(_seen_to)
        await asyncio.shield(self._next)

    async def run(self) -> None:
        """Hear of every change until cancelled. Raises StoreFault; then call again."""
        while self._store.is_shared:
            await self.catch_up()
            await self._store.changed()
        await asyncio.Event().wait()

    async def run_late(self) -> None:
        """Read those again that were busy when they were heard of, until cancelled.

        Raises StoreFault; then call again.
        """
        try:
            async with asyncio.TaskGroup() as reads:
                while True:
                    for sandbox_id in self._late:
                        reads.create_task(self._read_again(sandbox_id), name=f"read {sandbox_id}")
                    self._late.clear()
                    self._is_late.clear()
                    await self._is_late.wait()
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None  # the others were about the same

    async def wait_for_answer(self, sandbox_id: str) -> Sandbox | None:
        """Return a sandbox once whoever makes it has made it; None when it is gone."""
        while True:
            await self.catch_up()
            sandbox, was_heard = self._sandboxes.get(sandbox_id), self._was_heard
            if sandbox is None or sandbox.stored.has_answered or not self._store.is_shared:
                return sandbox
            await was_heard.wait()

    async def _look(self) -> None:
        async with self._turn:
            self._next = None  # who comes from here on waits for the look after this one
            changes = await self._store.changes(self._position)
            await self._hear(changes)
            self._position = changes.position
            self._was_heard.set()
            self._was_heard = asyncio.Event()

    async def _hear(self, changes: Changes) -> None:
        heard: dict[str, StoredSandbox | None] = dict.fromkeys(changes.gone)
        if changes.is_whole:
            heard.update(dict.fromkeys(self._sandboxes))
        heard.update((stored.id, stored) for stored in changes.changed)
        new = [each for each in changes.changed if each.id not in self._sandboxes]
        seen = await self._instances() if any(each.has_answered for each in new) else {}
        for sandbox_id, stored in heard.items():
            known = self._sandboxes.get(sandbox_id)
            if known and known.lock.locked():  # somebody here is at it, and may take long
                self._late[sandbox_id] = None
                self._is_late.set()
            elif stored is None:
                await self._drop(sandbox_id)
            elif known is None:
                await self._add(stored, seen.get(sandbox_id))
            else:
                await self._change(known, stored)

    async def _read_again(self, sandbox_id: str) -> None:
        try:
            if known := self._sandboxes.get(sandbox_id):
                async with known.lock:  # only to wait: what is read must be newer than that
                    pass
            async with self._turn:
                stored = await self._store.get(sandbox_id)
                heard = [stored] if stored else []
                gone = [] if stored else [sandbox_id]
                await self._hear(Changes(self._position or "", heard, gone))
        except BaseException:
            self._late[sandbox_id] = None
            raise

    async def _add(self, stored: StoredSandbox, instance: Instance | None) -> None:
        sandbox = self._sandboxes[stored.id] = Sandbox(stored)
        self._schedule(stored.id, stored)
        if stored.has_answered:
            async with sandbox.held():
                await self._see(sandbox, instance)
                _agree_since_when(sandbox)

    async def _change(self, sandbox: Sandbox, stored: StoredSandbox) -> None:
        if stored.revision < sandbox.stored.revision:
            return  # a change of ours was faster
        async with sandbox.held():
            sandbox.stored = stored
            self._schedule(stored.id, stored)
            has_moved = sandbox.instance is None or sandbox.status.state != stored.state
            if stored.has_answered and has_moved:
                await self._see(sandbox, await self._instance(stored.id))
            _agree_since_when(sandbox)

    async def _drop(self, sandbox_id: str) -> None:
        if sandbox := self._sandboxes.pop(sandbox_id, None):
            async with sandbox.held():
                self._schedule(sandbox_id, None)
                with contextlib.suppress(IngressUnavailable):
                    await self._routes.delete(sandbox_id)

    async def _see(self, sandbox: Sandbox, instance: Instance | None) -> None:
        if instance is None:
            sandbox.instance, sandbox.status = None, states.lost()
        else:
            sandbox.see(instance)
        await refresh_route(self._routes, sandbox)

    async def _instance(self, sandbox_id: str) -> Instance | None:
        with faults_of_runtime(QueryFault):
            try:
                return (await self._runtime.inspect(sandbox_id)).instance
            except InstanceUnknown:
                return None

    async def _instances(self) -> Mapping[str, Instance]:
        with faults_of_runtime(QueryFault):
            return {instance.id: instance for instance in await self._runtime.instances()}


def _agree_since_when(sandbox: Sandbox) -> None:
    """Tell the time at which the first server saw the state: all say the same."""
    stored, status = sandbox.stored, sandbox.status
    if stored.state == status.state and stored.state_at:
        sandbox.status = replace(status, since=stored.state_at)


def _seen_to(look: asyncio.Task[None]) -> None:
    """Take the fault of a look that nobody waits for any more."""
    with contextlib.suppress(asyncio.CancelledError):
        look.exception()
