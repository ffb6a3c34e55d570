# SPDX-License-Identifier: Apache-2.0
"""Shows each step with the time it took, and what is wrong in one line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class VMError(Exception):
    """The virtual machine could not do what was asked; the message is for the user."""


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print the step once it is done; one that fails prints nothing, its error says more."""
    started = time.monotonic()
    yield
    print(f"  {what:<44} {time.monotonic() - started:7.1f} s", flush=True)
