# SPDX-License-Identifier: Apache-2.0
"""Routes: what ingress must know to let requests through to a sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Route:
    """Everything ingress needs to let requests through to one sandbox."""

    id: str
    socket: Path | None = None
    tcp: str | None = None
    is_paused: bool = False
    execd_token: str = field(default="", repr=False)
    secure_token: str = field(default="", repr=False)


class Routes(Protocol):
    """Whoever lets requests through to sandboxes."""

    @property
    def is_open(self) -> bool:
        """True while requests pass."""

    @property
    def streams(self) -> Mapping[str, Mapping[str, int]]:
        """By kind, how many streams to sandboxes are `open`, and were `begun` since it started."""

    async def put(self, route: Route) -> None:
        """Add or replace a route; in force when it returns. Raises IngressUnavailable."""

    async def delete(self, sandbox_id: str) -> None:
        """Take a route away; no request passes once it returns. Repeats safely."""
