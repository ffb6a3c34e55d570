# SPDX-License-Identifier: Apache-2.0
"""How this side waits. The only file that is written for each side."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def sleep(seconds: float) -> None:
    """Wait, and let others work."""
    await asyncio.sleep(seconds)


async def run_blocking(function: Callable[[], T]) -> T:
    """Do what may block, a read from a disk, without holding up the event loop."""
    return await asyncio.to_thread(function)
