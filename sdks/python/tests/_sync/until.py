# SPDX-License-Identifier: Apache-2.0
# Made from _async/until.py by scripts/unasync.py; change it there.
"""Waits for something that must become true, and not for ever."""

import time
from collections.abc import Callable

from opensandbox._sync.waiting import sleep

WAIT_SECONDS = 60.0  # bounds what takes a moment on a fast machine


def until(probe: Callable[[], bool]) -> None:
    """Return when the probe says yes."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not probe():
        assert time.monotonic() < deadline, "it never became true"
        sleep(0.02)
