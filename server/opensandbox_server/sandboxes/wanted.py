# SPDX-License-Identifier: Apache-2.0
"""What is wanted of one sandbox: what the store remembers. What is seen is the runtime's to say."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from opensandbox_server.runtimes.base import Resources, SandboxSpec


class NotUnderstood(Exception):
    """What was stored cannot be read by this version."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One sandbox as somebody asked for it. Registry passwords are used once and never kept."""

    id: str
    image: str
    entrypoint: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    extensions: Mapping[str, str] = field(default_factory=dict)
    platform: tuple[str, str] | None = None
    resources: Resources = field(default_factory=Resources)
    isolation: str | None = None
    has_network: bool = True
    is_readonly: bool = False
    execd_token: str = field(default="", repr=False)
    secure_token: str = field(default="", repr=False)
    """Callers of any port must send it; empty when access is not restricted."""
    has_answered: bool = False
    """True once somebody was told of it. Until then a crash of the server may undo it."""
    is_repeatable: bool = False
    """Made with an idempotency key: whoever asked will ask again and find it."""
    others: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What a newer version of the server wrote beside these."""

    def spec(self) -> SandboxSpec:
        """Return what a runtime needs to make it."""
        return SandboxSpec(
            id=self.id,
            image=self.image,
            entrypoint=self.entrypoint,
            env=self.env,
            resources=self.resources,
            platform=self.platform,
            isolation=self.isolation,
            has_network=self.has_network,
            is_readonly=self.is_readonly,
        )

    def has_expired(self, now: datetime) -> bool:
        """Return whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


def to_json(wanted: Wanted) -> str:
    """Write it as the store keeps it."""
    fields = dataclasses.asdict(wanted)
    others = fields.pop("others")
    fields["resources"] = others.pop("resources", {}) | fields["resources"]
    return json.dumps(others | fields, default=datetime.isoformat, separators=(",", ":"))


def from_json(text: str) -> Wanted:
    """Read what to_json wrote. Raises NotUnderstood.

    Fields an older version did not know get their default; those a newer one added are kept.
    """
    try:
        return _from_fields(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise NotUnderstood(f"what the store has of it makes no sense: {fault!r}") from fault


def _from_fields(said: dict[str, Any]) -> Wanted:
    fields, others = _split(said, Wanted)
    limits, other_limits = _split(fields.pop("resources"), Resources)
    if other_limits:
        others["resources"] = other_limits
    fields["entrypoint"] = tuple(fields["entrypoint"])
    fields["created_at"] = datetime.fromisoformat(fields["created_at"])
    if fields["expires_at"]:
        fields["expires_at"] = datetime.fromisoformat(fields["expires_at"])
    if fields["platform"]:
        fields["platform"] = tuple(fields["platform"])
    return Wanted(**fields, resources=Resources(**limits), others=others)


def _split(said: dict[str, Any], kind: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part what fills the fields of a class from what a newer version of it has beside."""
    names = {each.name for each in dataclasses.fields(kind)} - {"others"}
    known = {name: value for name, value in said.items() if name in names}
    return known, {name: value for name, value in said.items() if name not in names}
