# SPDX-License-Identifier: Apache-2.0
"""Idempotency keys: a create that is asked for again makes nothing new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from opensandbox_server.errors import IdempotencyConflict
from opensandbox_server.sandboxes.sandbox import Sandbox
from opensandbox_server.store.store import KeyTaken


class Idempotency:
    """Remembers which key makes which sandbox here and now; the store knows those that did."""

    def __init__(self) -> None:
        """Begin with none."""
        self._making: dict[tuple[str, str], tuple[str, asyncio.Task[Sandbox]]] = {}

    async def once(
        self,
        key: tuple[str, str],
        fingerprint: str,
        make: Callable[[], Awaitable[Sandbox]],
        find: Callable[[str], Awaitable[Sandbox | None]],
    ) -> Sandbox:
        """Return what the key of that owner made, or make it. Raises IdempotencyConflict.

        A client that goes away does not stop it: whoever repeats the request finds it.
        """
        if key in self._making:
            former, task = self._making[key]
            _check_same(former, fingerprint)
        else:
            task = asyncio.create_task(_make_or_find(fingerprint, make, find))
            self._making[key] = fingerprint, task
            task.add_done_callback(lambda _: self._making.pop(key))
        return await asyncio.shield(task)


async def _make_or_find(
    fingerprint: str,
    make: Callable[[], Awaitable[Sandbox]],
    find: Callable[[str], Awaitable[Sandbox | None]],
) -> Sandbox:
    """Try to make it: the store, which is asked for that anyway, knows whether the key is new."""
    try:
        return await make()
    except KeyTaken as taken:
        former = taken.former
    _check_same(former.fingerprint, fingerprint)
    if (found := await find(former.sandbox_id)) is None:
        raise IdempotencyConflict("The sandbox made with this idempotency key has ended.")
    return found


def _check_same(former: str, fingerprint: str) -> None:
    if former != fingerprint:
        raise IdempotencyConflict("This idempotency key was used for another request.")
