# SPDX-License-Identifier: Apache-2.0
"""Volumes as a noun of a runtime: directories that outlive the instances they are mounted in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class VolumeRef:
    """One volume, as only the runtime that made it understands it."""

    id: str
    size_bytes: int
    """What it takes, as far as the runtime knows; it counts against its owner's limits."""


class Volumes(Protocol):
    """The volumes of a runtime; there from prepare to close. Owners and names are the server's."""

    async def list(self) -> Sequence[VolumeRef]:
        """Return every volume there is, also those a former process of this server made."""

    async def make(self, volume_id: str, size_bytes: int | None) -> VolumeRef:
        """Make an empty volume that never holds more than size_bytes; whole or not at all.

        Repeats safely: one of that id that is there already is returned as it is.
        """

    async def remove(self, volume_id: str) -> None:
        """Remove a volume and what is in it. Repeats safely. Raises WrongState while it is used."""
