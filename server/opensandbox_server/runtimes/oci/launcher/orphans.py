# SPDX-License-Identifier: Apache-2.0
"""Processes the OCI runtime left to us: it forks more than once, and does not wait for all."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path


class Orphans:
    """Reaps what nobody else will. Orphans become children of the main thread."""

    def __init__(self, is_ours: Callable[[int], bool]) -> None:
        """Spare the processes somebody waits for."""
        self._is_ours = is_ours
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
            for pid in Path(f"/proc/{main}/task/{main}/children").read_text().split():
                if not self._is_ours(int(pid)):
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(int(pid), os.WNOHANG)
