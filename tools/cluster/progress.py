# SPDX-License-Identifier: Apache-2.0
"""Shows each step with the time it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print the step once it is done; one that fails prints nothing, its error says more."""
    started = time.monotonic()
    yield
    print(f"  {what:<52} {time.monotonic() - started:6.1f} s", flush=True)
