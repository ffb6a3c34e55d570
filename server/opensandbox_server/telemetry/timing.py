# SPDX-License-Identifier: Apache-2.0
"""Where the time of a request went, as the `Server-Timing` header tells it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Timing:
    """Spans of one request; a name used twice adds up."""

    def __init__(self) -> None:
        """Begin now."""
        self._began = time.perf_counter()
        self._spans: dict[str, float] = {}

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Measure what happens inside."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._spans[name] = self._spans.get(name, 0.0) + time.perf_counter() - began

    def header(self) -> str:
        """Write all spans and the total until now, in milliseconds."""
        spans = {"total": time.perf_counter() - self._began, **self._spans}
        return ", ".join(f"{name};dur={1000 * seconds:.3f}" for name, seconds in spans.items())
