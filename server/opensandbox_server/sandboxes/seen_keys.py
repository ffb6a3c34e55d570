# SPDX-License-Identifier: Apache-2.0
"""Which idempotency keys may be in the store: a key that is new needs no look there."""

from __future__ import annotations

from collections.abc import Iterable

BITS = 1 << 26
"""8 MiB, touched as keys come; ten creates a second fill a third of it in a month."""


class SeenKeys:
    """A set that answers "never" for sure and "perhaps" else; it has one size for any use.

    One bit stands for many keys, so none can be taken out. A key that only shares its bit with
    another one is looked up for nothing, that is all.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        """Take those that are in the store already."""
        self._bits = bytearray(BITS // 8)
        for key in keys:
            self.add(key)

    def add(self, key: str) -> None:
        """Note a key, before it can be in the store."""
        byte, bit = self._place(key)
        self._bits[byte] |= bit

    def __contains__(self, key: str) -> bool:
        """Return whether the key may have been added."""
        byte, bit = self._place(key)
        return bool(self._bits[byte] & bit)

    def _place(self, key: str) -> tuple[int, int]:
        byte, bit = divmod(hash(key) % BITS, 8)
        return byte, 1 << bit
