# SPDX-License-Identifier: Apache-2.0
"""Those who want to know which instances end by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from opensandbox_server.runtimes.base import Instance, RuntimeEvent


class Watchers:
    """Everybody who called watch and has not closed it; each gets all news since the call."""

    def __init__(self) -> None:
        """Start with nobody."""
        self._queues: set[asyncio.Queue[RuntimeEvent]] = set()

    def add(self) -> AsyncIterator[RuntimeEvent]:
        """Keep news for one more from now on, whenever they are asked for."""
        queue: asyncio.Queue[RuntimeEvent] = asyncio.Queue()
        self._queues.add(queue)
        return self._drain(queue)

    def tell(self, instance: Instance) -> None:
        """Tell everybody."""
        for queue in self._queues:
            queue.put_nowait(RuntimeEvent(instance))

    async def _drain(self, queue: asyncio.Queue[RuntimeEvent]) -> AsyncIterator[RuntimeEvent]:
        try:
            while True:
                yield await queue.get()
        finally:
            self._queues.discard(queue)
