# SPDX-License-Identifier: Apache-2.0
"""Processes the OCI runtime left to us: it forks more than once, and does not wait for all."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path


class Orphans:
    """Reaps what nobody else will. Orphans become children of the main thread."""

    def __init__(self, waited_for: Callable[[], Collection[int]]) -> None:
        """Spare the processes somebody waits for; asked once for all, as there may be thousands."""
        self._waited_for = waited_for
        self._lock = threading.Lock()
        self._starts = 0

    @contextlib.contextmanager
    def spared(self) -> Iterator[None]:
        """Reap nothing meanwhile: the first process of a new sandbox is not known to be one yet."""
        with self._lock:
            self._starts += 1
        try:
            yield
        finally:
            with self._lock:
                self._starts -= 1

    def reap(self) -> None:
        """Reap the dead among them, unless a start is under way; then the next call does."""
        with self._lock:
            if self._starts:
                return
            main = os.getpid()
            children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
            for pid in set(map(int, children)).difference(self._waited_for()):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
