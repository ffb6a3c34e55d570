# SPDX-License-Identifier: Apache-2.0
"""API keys: who may use the server. Only their sums are kept in memory and sent to ingress."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The SHA-256 sums of all keys, in hex. No keys let nobody in, unless the server is open."""

    sums: tuple[str, ...] = ()
    is_open: bool = False
    """True when no key is needed: everybody may do everything."""

    @classmethod
    def of(cls, keys: Iterable[str]) -> ApiKeys:
        """Sum up keys."""
        return cls(tuple(_sum(key) for key in keys))

    def has(self, key: str) -> bool:
        """Compare with every key, in a time that tells nothing."""
        given = _sum(key)
        return sum(hmac.compare_digest(given, known) for known in self.sums) > 0


def _sum(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
