# SPDX-License-Identifier: Apache-2.0
"""How this side waits. The only file that is written for each side."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def run_blocking(function: Callable[[], T]) -> T:
    """Do what may block; here everything may."""
    return function()
