# SPDX-License-Identifier: Apache-2.0
"""What to do so that what runs is what is wanted: plain values in, plain actions out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from opensandbox_server.runtimes.base import Instance
from opensandbox_server.store.stored import StoredSandbox


@dataclass(frozen=True, slots=True)
class Adopt:
    """It is wanted and it is there: go on with it."""

    stored: StoredSandbox
    instance: Instance


@dataclass(frozen=True, slots=True)
class End:
    """It is no longer wanted: end what is there of it, then forget it."""

    stored: StoredSandbox
    why: str


@dataclass(frozen=True, slots=True)
class MarkLost:
    """It is wanted and it is not there: its owner must learn that it failed."""

    stored: StoredSandbox


@dataclass(frozen=True, slots=True)
class Leave:
    """It is there and the store does not know it: it is not ours to end, and an operator is told.

    A start is remembered before it begins, so no create that was cut off is among these.
    """

    instance: Instance


Action = Adopt | End | MarkLost | Leave


def plan(
    stored: Iterable[StoredSandbox], seen: Iterable[Instance], now: datetime
) -> Sequence[Action]:
    """Choose one action for every sandbox that is wanted or seen."""
    instances = {instance.id: instance for instance in seen}
    actions: list[Action] = [_choose(each, instances.pop(each.id, None), now) for each in stored]
    return [*actions, *(Leave(instance) for instance in instances.values())]


def _choose(stored: StoredSandbox, instance: Instance | None, now: datetime) -> Action:
    if stored.has_expired(now):
        return End(stored, "its time was over")
    if stored.has_answered:
        return Adopt(stored, instance) if instance else MarkLost(stored)
    if instance and stored.is_repeatable:
        return Adopt(stored, instance)
    return End(stored, "the server stopped before it could tell anybody of it")
