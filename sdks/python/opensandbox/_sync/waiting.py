# SPDX-License-Identifier: Apache-2.0
"""How this side waits. The only file that is written for each side."""

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
