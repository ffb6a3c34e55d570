# SPDX-License-Identifier: Apache-2.0
"""Those who follow what entrypoints write, and are told by the launcher that there is more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class LogNews:
    """Who waits for more, by sandbox. The launcher tells once, whenever it was asked in vain."""

    def __init__(self) -> None:
        """Start with nobody."""
        self._followers: dict[str, set[asyncio.Event]] = {}

    @contextlib.contextmanager
    def awaited(self, name: str) -> Iterator[asyncio.Event]:
        """Have an event that is set by news; clear it before the launcher is asked."""
        event = asyncio.Event()
        followers = self._followers.setdefault(name, set())
        followers.add(event)
        try:
            yield event
        finally:
            followers.discard(event)
            if not followers and self._followers.get(name) is followers:
                del self._followers[name]

    def tell(self, name: str) -> None:
        """Wake those who follow one sandbox."""
        for event in self._followers.get(name, ()):
            event.set()

    def tell_all(self) -> None:
        """Wake everybody: who was to tell them is gone."""
        for name in self._followers:
            self.tell(name)
