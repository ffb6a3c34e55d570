# SPDX-License-Identifier: Apache-2.0
"""API keys: who may use the server. Only their sums are kept in memory and sent to ingress."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The SHA-256 sums of all keys, in hex; none means that everybody may do everything."""

    sums: tuple[str, ...] = ()

    @classmethod
    def of(cls, keys: Iterable[str]) -> ApiKeys:
        """Sum up keys."""
        return cls(tuple(_sum(key) for key in keys))

    @property
    def is_open(self) -> bool:
        """True when no key is needed."""
        return not self.sums

    def has(self, key: str) -> bool:
        """Compare with every key, in a time that tells nothing."""
        given = _sum(key)
        return sum(hmac.compare_digest(given, known) for known in self.sums) > 0


def _sum(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
