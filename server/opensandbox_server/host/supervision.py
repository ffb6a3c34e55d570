# SPDX-License-Identifier: Apache-2.0
"""Tasks that must live as long as the server does: what fails or ends is started again."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterator

from opensandbox_server.errors import OpenSandboxError

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 5.0
"""Between two lives; doubles while lives stay short."""

LONG_LIFE_SECONDS = 10.0


class Supervised:
    """One task that must live. Whatever ends its work, the work is begun again after a pause."""

    def __init__(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Name it for the log and for readiness; work is called once for each life."""
        self.name = name
        self.is_down = False
        self._work = work

    async def run(self) -> None:
        """Keep the work going until cancelled."""
        pauses = growing_pauses()
        while True:
            began, fault = time.monotonic(), await self._live_once()
            if time.monotonic() - began > LONG_LIFE_SECONDS:
                pauses = growing_pauses()
            pause = next(pauses)
            why = f"failed: {fault}" if fault else "ended"
            expected = fault is None or isinstance(fault, OpenSandboxError | OSError)
            trace = None if expected else fault
            log.error("%s %s; it starts again in %.1f s", self.name, why, pause, exc_info=trace)
            await asyncio.sleep(pause)
            self.is_down = False

    async def _live_once(self) -> Exception | None:
        try:
            await self._work()
        except Exception as fault:  # noqa: BLE001  # run says it, and goes on
            return fault
        finally:
            self.is_down = True
        return None


def growing_pauses() -> Iterator[float]:
    """Yield how long to wait before each further attempt, in seconds; without end."""
    for attempt in itertools.count():
        yield min(FIRST_PAUSE_SECONDS * 2 ** min(attempt, 16), LONGEST_PAUSE_SECONDS)
