# SPDX-License-Identifier: Apache-2.0
"""What the store remembers of one sandbox. What is seen of it is the runtime's to say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from opensandbox_server.runtimes.base import Resources, SandboxSpec


class NotUnderstood(Exception):
    """What was stored cannot be read by this version."""


@dataclass(frozen=True, slots=True)
class StoredSandbox:
    """One sandbox as somebody asked for it, its tokens, and how far it has come."""

    spec: SandboxSpec
    created_at: datetime
    owner: str = ""
    """Whose it is; the empty name is everybody's who has a key."""
    revision: int = 1
    """Counts what was changed of it. Who changes something says which one that was based on."""
    state: str = ""
    """The state last seen, in the contract's words; empty before any was."""
    state_at: datetime | None = None
    expires_at: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    extensions: Mapping[str, str] = field(default_factory=dict)
    execd_token: str = field(default="", repr=False)
    secure_token: str = field(default="", repr=False)
    """Callers of any port must send it; empty when access is not restricted."""
    has_answered: bool = False
    """True once somebody was told of it. Until then a crash of the server may undo it."""
    is_repeatable: bool = False
    """Made with an idempotency key: whoever asked will ask again and find it."""
    others: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What a newer version of the server wrote beside these; under `spec`, beside those of it."""

    @property
    def id(self) -> str:
        """The id of the sandbox."""
        return self.spec.id

    def has_expired(self, now: datetime) -> bool:
        """Return whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


JSON_COLUMNS = ("spec", "env", "metadata", "extensions", "others")
TIME_COLUMNS = ("created_at", "expires_at", "state_at")
_PLAIN = ("owner", "revision", "state", "execd_token", "secure_token")
_FLAGS = ("has_answered", "is_repeatable")
COLUMNS = ("id", *_PLAIN, *_FLAGS, *TIME_COLUMNS, *JSON_COLUMNS)
"""What every database keeps of a sandbox. The environment is apart: its values may be secrets."""
WANTED_COLUMNS = tuple(name for name in COLUMNS if name not in {"id", "state", "state_at"})
"""Those that an update writes: the state is seen, and not wanted."""


def to_row(stored: StoredSandbox) -> dict[str, Any]:
    """Return the columns of a sandbox: times as such, and JSON as plain values."""
    spec = dataclasses.asdict(stored.spec)
    others = dict(stored.others)
    kept = others.pop("spec", {})
    spec["resources"] = kept.get("resources", {}) | spec["resources"]
    row = {name: getattr(stored, name) for name in (*_PLAIN, *_FLAGS, *TIME_COLUMNS)}
    row |= {"id": spec.pop("id"), "env": spec.pop("env"), "spec": kept | spec, "others": others}
    return row | {"metadata": dict(stored.metadata), "extensions": dict(stored.extensions)}


def from_row(row: Mapping[str, Any]) -> StoredSandbox:
    """Read what to_row wrote. Raises NotUnderstood.

    Fields an older version did not know get their default; those a newer one added are kept.
    """
    try:
        spec, beside = _split(row["spec"], SandboxSpec)
        limits, other_limits = _split(spec.pop("resources"), Resources)
        if other_limits:
            beside["resources"] = other_limits
        spec["entrypoint"] = tuple(spec["entrypoint"])
        spec["platform"] = tuple(spec["platform"]) if spec.get("platform") else None
        made = SandboxSpec(row["id"], **spec, env=row["env"], resources=Resources(**limits))
        return _with_fields(made, row, row["others"] | ({"spec": beside} if beside else {}))
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise NotUnderstood(f"what the store has of it makes no sense: {fault!r}") from fault


def _with_fields(
    spec: SandboxSpec, row: Mapping[str, Any], others: Mapping[str, Any]
) -> StoredSandbox:
    fields = {name: row[name] for name in (*_PLAIN, *TIME_COLUMNS, "metadata", "extensions")}
    if fields["created_at"] is None:
        raise ValueError("it has no time")
    fields |= {name: bool(row[name]) for name in _FLAGS}
    return StoredSandbox(spec, **fields, others=others)


def _split(said: dict[str, Any], kind: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part what fills the fields of a class from what is beside them."""
    names = {each.name for each in dataclasses.fields(kind)}
    known = {name: value for name, value in said.items() if name in names}
    return known, {name: value for name, value in said.items() if name not in names}
