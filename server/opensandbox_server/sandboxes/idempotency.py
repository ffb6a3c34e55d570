# SPDX-License-Identifier: Apache-2.0
"""Idempotency keys: a create that is asked for again makes nothing new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from opensandbox_server.errors import IdempotencyConflict
from opensandbox_server.sandboxes.sandbox import Sandbox
from opensandbox_server.store.sqlite import Repeat, Store


class Idempotency:
    """Remembers which key made which sandbox: those being made here, the others in the store."""

    def __init__(self, store: Store) -> None:
        """Take where keys are kept; whoever makes the sandbox keeps its key there too."""
        self._store = store
        self._making: dict[str, tuple[str, asyncio.Task[Sandbox]]] = {}

    async def once(
        self,
        key: str,
        fingerprint: str,
        make: Callable[[], Awaitable[Sandbox]],
        find: Callable[[str], Sandbox | None],
    ) -> Sandbox:
        """Return what the key made, or make it. Raises IdempotencyConflict.

        A client that goes away does not stop it: whoever repeats the request finds it.
        """
        if key in self._making:
            former, task = self._making[key]
            _check_same(former, fingerprint)
        else:
            task = asyncio.create_task(self._find_or_make(key, fingerprint, make, find))
            self._making[key] = fingerprint, task
            task.add_done_callback(lambda _: self._making.pop(key))
        return await asyncio.shield(task)

    async def _find_or_make(
        self,
        key: str,
        fingerprint: str,
        make: Callable[[], Awaitable[Sandbox]],
        find: Callable[[str], Sandbox | None],
    ) -> Sandbox:
        former: Repeat | None = await self._store.repeat(key)
        if former is None:
            return await make()
        _check_same(former.fingerprint, fingerprint)
        if (found := find(former.sandbox_id)) is None:
            raise IdempotencyConflict("The sandbox made with this idempotency key has ended.")
        return found


def _check_same(former: str, fingerprint: str) -> None:
    if former != fingerprint:
        raise IdempotencyConflict("This idempotency key was used for another request.")
