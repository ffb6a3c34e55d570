# SPDX-License-Identifier: Apache-2.0
"""How this side waits. The only file that is written for each side."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from opensandbox._archive import Pulled

T = TypeVar("T")

GIVING_UP = (KeyboardInterrupt,)
"""What is raised in a caller that wants no more of what it waits for."""


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def run_blocking(function: Callable[[], T]) -> T:
    """Do what may block; here everything may."""
    return function()


def run_reading(chunks: Iterator[bytes], consume: Callable[[Pulled], T]) -> T:
    """Let a function read chunks as a stream; they are fetched as it reads."""
    return consume(Pulled(lambda: next(chunks, b"")))


class BackgroundTasks:
    """What is done on the side. Its owner finishes it."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def start(self, function: Callable[[], None]) -> None:
        """Begin a task and return at once."""
        thread = threading.Thread(target=function, name="opensandbox background task", daemon=True)
        thread.start()
        self._threads.append(thread)

    def finish(self) -> None:
        """Wait for what is under way; a task knows how long it may take."""
        while self._threads:
            self._threads.pop().join()
