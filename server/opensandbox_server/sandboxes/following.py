# SPDX-License-Identifier: Apache-2.0
"""What other servers do with the same sandboxes, heard from a store that several share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from opensandbox.models import SandboxState
from opensandbox_server.errors import IdempotencyConflict, IngressUnavailable
from opensandbox_server.ingress.routes import Routes
from opensandbox_server.runtimes.base import Instance, Runtime, RuntimeFault
from opensandbox_server.sandboxes import states
from opensandbox_server.sandboxes.expiry import RETRY_SECONDS
from opensandbox_server.sandboxes.sandbox import Sandbox, refresh_route
from opensandbox_server.store.store import Changes, Store
from opensandbox_server.store.stored import StoredSandbox

log = logging.getLogger(__name__)

ANSWER_SECONDS = 60.0
"""How long a create under a key waits for another server that makes the same."""

RUNTIME_SECONDS = 10.0
"""How long the runtime may take to say what it has."""


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
        """Return a sandbox once whoever makes it has made it; None when it is gone.

        Raises IdempotencyConflict when that takes too long.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    await self.catch_up()
                    sandbox, was_heard = self._sandboxes.get(sandbox_id), self._was_heard
                    if sandbox is None or sandbox.status.state == SandboxState.STOPPING:
                        return None
                    if sandbox.stored.has_answered or not self._store.is_shared:
                        return sandbox
                    await was_heard.wait()
        except TimeoutError as fault:
            raise IdempotencyConflict(
                "The sandbox of this idempotency key is still being made; ask again later."
            ) from fault

    async def _look(self) -> None:
        async with self._turn:
            self._next = None  # who comes from here on waits for the look after this one
            before = dict(self._sandboxes)
            changes = await self._store.changes(self._position)
            await self._hear(changes, before)
            self._position = changes.position
            self._was_heard.set()
            self._was_heard = asyncio.Event()

    async def _read_again(self, sandbox_id: str) -> None:
        try:
            if known := self._sandboxes.get(sandbox_id):
                async with known.lock:  # only to wait: what is read must be newer than that
                    pass
            async with self._turn:
                before = dict(self._sandboxes)
                stored = await self._store.get(sandbox_id)
                heard = [stored] if stored else []
                gone = [] if stored else [sandbox_id]
                await self._hear(Changes(self._position or "", heard, gone), before)
        except BaseException:
            self._late[sandbox_id] = None
            raise

    async def _hear(self, changes: Changes, before: Mapping[str, Sandbox]) -> None:
        """Take what was read; before is what was known when reading began."""
        heard: dict[str, StoredSandbox | None] = dict.fromkeys(changes.gone)
        if changes.is_whole:
            heard.update(dict.fromkeys(before.keys() - set(changes.unreadable)))
        heard.update((stored.id, stored) for stored in changes.changed)
        moved = {
            sandbox_id: known.status if known else None
            for sandbox_id, stored in heard.items()
            if stored and _has_moved(known := before.get(sandbox_id), stored)
        }
        seen = await self._instances() if moved else {}
        for sandbox_id, stored in heard.items():
            known = self._sandboxes.get(sandbox_id)
            was_changed_here = known is not before.get(sandbox_id) or (
                known is not None and known.status is not moved.get(sandbox_id, known.status)
            )
            if was_changed_here or (known and known.lock.locked()):
                self._read_later(sandbox_id)
            elif (
                known and known.status.state == SandboxState.STOPPING and (stored or known.instance)
            ):
                known.stored = stored or known.stored  # its end failed here, and is tried again
            elif stored is None:
                await self._drop(sandbox_id)
            else:
                await self._take(known, stored, seen if sandbox_id in moved else None)
                if seen is None:  # the runtime does not answer: what is stored is shown until then
                    asyncio.get_running_loop().call_later(
                        RETRY_SECONDS, self._read_later, sandbox_id
                    )

    async def _take(
        self, known: Sandbox | None, stored: StoredSandbox, seen: Mapping[str, Instance] | None
    ) -> None:
        """Know a sandbox as it is stored; seen is what the runtime has, where that matters."""
        sandbox = known or Sandbox(stored)
        self._sandboxes[stored.id] = sandbox
        async with sandbox.held():
            if stored.revision < sandbox.stored.revision:
                return  # a change of ours was faster
            sandbox.stored = stored
            self._schedule(stored.id, stored)
            if seen is not None:
                await self._see(sandbox, seen.get(stored.id))
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

    async def _instances(self) -> Mapping[str, Instance] | None:
        """Ask the runtime once for all; None when it does not say."""
        try:
            async with asyncio.timeout(RUNTIME_SECONDS):
                return {instance.id: instance for instance in await self._runtime.instances()}
        except (RuntimeFault, OSError, TimeoutError) as fault:
            log.warning("the runtime does not say what it has: %r", fault)
            return None

    def _read_later(self, sandbox_id: str) -> None:
        self._late[sandbox_id] = None
        self._is_late.set()


def _has_moved(known: Sandbox | None, stored: StoredSandbox) -> bool:
    """Return whether the runtime must be asked for a sandbox: another server has changed it."""
    if not stored.has_answered:
        return False
    return known is None or known.instance is None or known.status.state != stored.state


def _agree_since_when(sandbox: Sandbox) -> None:
    """Tell the time at which the first server saw the state: all say the same."""
    stored, status = sandbox.stored, sandbox.status
    if stored.state == status.state and stored.state_at:
        sandbox.status = replace(status, since=stored.state_at)


def _seen_to(look: asyncio.Task[None]) -> None:
    """Take the fault of a look that nobody waits for any more."""
    with contextlib.suppress(asyncio.CancelledError):
        look.exception()
