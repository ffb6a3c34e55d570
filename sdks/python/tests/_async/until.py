# SPDX-License-Identifier: Apache-2.0
"""Waits for something that must become true, and not for ever."""

import time
from collections.abc import Awaitable, Callable

from opensandbox._async.waiting import sleep

WAIT_SECONDS = 60.0  # bounds what takes a moment on a fast machine


async def until(probe: Callable[[], Awaitable[bool]]) -> None:
    """Return when the probe says yes."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not await probe():
        assert time.monotonic() < deadline, "it never became true"
        await sleep(0.02)
