# SPDX-License-Identifier: Apache-2.0
"""Longer lives for sandboxes that are used and asked for that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta

from opensandbox_server.errors import SandboxNotFound, StoreFault
from opensandbox_server.sandboxes.admission import renew_seconds
from opensandbox_server.store.stored import StoredSandbox


class RenewalByTraffic:
    """Calls `renew` for each id that was used, one after another."""

    def __init__(self, renew: Callable[[str], Awaitable[None]]) -> None:
        """Take what lengthens the life of a sandbox, if it may."""
        self._renew = renew
        self._used: dict[str, None] = {}  # an ordered set
        self._was_used = asyncio.Event()

    def saw(self, ids: Iterable[str]) -> None:
        """Remember who was used."""
        self._used.update(dict.fromkeys(ids))
        self._was_used.set()

    async def run(self) -> None:
        """Renew until cancelled. Raises StoreFault; who could not be renewed is next time."""
        while True:
            while not self._used:
                self._was_used.clear()
                await self._was_used.wait()
            sandbox_id = next(iter(self._used))
            del self._used[sandbox_id]
            try:
                await self._renew(sandbox_id)
            except SandboxNotFound:
                continue
            except StoreFault:
                self._used[sandbox_id] = None
                raise


def later_end(stored: StoredSandbox, now: datetime, max_timeout: int | None) -> datetime | None:
    """Return the end that traffic gives a sandbox; None when it changes nothing. Pure."""
    seconds = renew_seconds(stored.extensions)
    if not seconds or not stored.expires_at:
        return None
    later = now + timedelta(seconds=min(seconds, max_timeout or seconds))
    return later if later > stored.expires_at else None
