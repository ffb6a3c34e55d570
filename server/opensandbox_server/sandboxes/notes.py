# SPDX-License-Identifier: Apache-2.0
"""What happened to sandboxes, written down at once, or as soon as the store takes it again."""

from __future__ import annotations

import asyncio
import collections
import logging
import time
from dataclasses import dataclass

from opensandbox_server.errors import StoreFault
from opensandbox_server.store.store import Event, Store

log = logging.getLogger(__name__)

MOST_LATE = 10_000
"""Notes kept for a store that does not take them; beyond that the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class _Late:
    sandbox_id: str
    event: Event
    state: str


class Notes:
    """Notes never fail whoever makes one: what happened has happened."""

    def __init__(self, store: Store) -> None:
        """Take where notes are kept."""
        self._store = store
        self._late: collections.deque[_Late] = collections.deque(maxlen=MOST_LATE)
        self._is_late = asyncio.Event()

    async def note(self, sandbox_id: str, kind: str, message: str = "", *, state: str = "") -> None:
        """Remember something that happened and the state seen then; what is wanted stays."""
        late = _Late(sandbox_id, Event(time.time(), kind, message), state)
        try:
            await self._write(late)
        except StoreFault as fault:
            log.warning("%s of sandbox %s is noted later: %s", kind, sandbox_id, fault)
            self._note_later(late)
        except asyncio.CancelledError:  # it has happened all the same
            self._note_later(late)
            raise

    def _note_later(self, late: _Late) -> None:
        self._late.append(late)
        self._is_late.set()

    async def catch_up(self) -> None:
        """Write what is late, oldest first, until cancelled. Raises StoreFault; then call again."""
        while True:
            await self._is_late.wait()
            while self._late:
                await self._write(self._late[0])
                self._late.popleft()
            self._is_late.clear()

    async def _write(self, late: _Late) -> None:
        event = late.event
        await self._store.note(
            late.sandbox_id, event.kind, event.message, at=event.at, state=late.state
        )
