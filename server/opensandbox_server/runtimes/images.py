# SPDX-License-Identifier: Apache-2.0
"""Images as a noun of a runtime: what can be listed, pulled and removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ImageHere(Protocol):
    """One image that instances can be started from without fetching anything."""

    @property
    def name(self) -> str:
        """What a create calls it."""

    @property
    def size_bytes(self) -> int:
        """What it takes on disk."""

    @property
    def created(self) -> float:
        """When it came here, in Unix seconds; 0 when nobody knows."""

    @property
    def digest(self) -> str:
        """Of its content; empty when nobody knows."""


class Images(Protocol):
    """The images of a runtime. Works before prepare and without a server: an operator's command."""

    async def list(self) -> Sequence[ImageHere]:
        """Return every image that is here, by name."""

    async def pull(self, name: str, login: tuple[str, str] | None = None) -> ImageHere:
        """Fetch an image, also one that is here already. It appears whole or not at all.

        The login is used once and kept nowhere. Raises RuntimeFault, which says what to do.
        """

    async def remove(self, name: str) -> None:
        """Remove an image; instances that run from it go on. Raises ImageUnknown."""
