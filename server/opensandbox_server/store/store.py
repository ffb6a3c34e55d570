# SPDX-License-Identifier: Apache-2.0
"""What a store is: where wanted state is kept. Each docstring is a contract with tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opensandbox_server.errors import OpenSandboxError
from opensandbox_server.store.stored import StoredSandbox

KEY_LIFETIME_SECONDS = 24 * 3600
"""How long a create may be repeated with the same idempotency key."""

EVENTS_KEPT = 500
"""Events remembered of one sandbox."""

LEASE_SECONDS = 30.0
"""How long a server that began to end a sandbox is left alone with it."""

START_SECONDS = 15 * 60.0
"""How long a create may take before other servers take it for one that was cut off."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a sandbox."""

    at: float
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class UsedKey:
    """An idempotency key and the create that was done under it."""

    owner: str
    key: str
    fingerprint: str
    sandbox_id: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed between two positions."""

    position: str
    """Where to go on; only the store that gave it understands it."""
    changed: Sequence[StoredSandbox]
    gone: Collection[str] = ()
    unreadable: Collection[str] = ()
    """Those of which there is a row that cannot be read: neither changed nor gone."""
    is_whole: bool = False
    """`changed` is everything there is: what is not in it is gone."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which sandboxes are asked for; what is left out restricts nothing."""

    owner: str | None = None
    states: Collection[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    offset: int = 0


class StoreConflict(OpenSandboxError):
    """Somebody else changed or deleted the sandbox meanwhile: read it and decide again."""


class KeyTaken(OpenSandboxError):
    """The idempotency key made a sandbox before; nothing was inserted."""

    def __init__(self, former: UsedKey) -> None:
        """Say which."""
        super().__init__(f"the key was used for sandbox {former.sandbox_id}")
        self.former = former


class Store(Protocol):
    """Wanted state. Every verb is one transaction: all of it is there afterwards, or nothing.

    Verbs may be called at the same time, and raise StoreFault when the store cannot be used. A
    call that was cancelled, or whose server was killed, has happened or has not.
    """

    is_shared: bool
    """Other servers may use it, too: `changes` tells what they do, `due` keeps them apart."""

    trouble: str
    """Why the last transaction failed; empty once writing works again."""

    async def get(self, sandbox_id: str) -> StoredSandbox | None:
        """Return one; None when it is not there or cannot be read."""

    async def query(self, query: Query) -> Sequence[StoredSandbox]:
        """Return those with all that is asked for, newest first.

        A row that cannot be read is logged, left as it is, and left out.
        """

    async def insert(self, stored: StoredSandbox, key: UsedKey | None = None) -> None:
        """Remember a new sandbox, its first event, and the key it may be asked for again with.

        Raises KeyTaken when that key of that owner was used within KEY_LIFETIME_SECONDS: of any
        number of inserts with one key, at the same time and anywhere, one succeeds.
        """

    async def update(
        self,
        stored: StoredSandbox,
        expected_revision: int,
        kind: str,
        message: str = "",
        *,
        state: str = "",
    ) -> int:
        """Remember a change and what it was, if nobody made another one. Return the new revision.

        The state is kept as it is, unless one was seen. Raises StoreConflict when its revision is
        not the expected one, and when it is gone.
        """

    async def delete(self, sandbox_id: str, *, frees_key: bool = False) -> None:
        """Forget a sandbox and its events; with frees_key also that its key was ever used.

        Repeats safely. Works on a full disk, and on a row that cannot be read.
        """

    async def note(
        self,
        sandbox_id: str,
        kind: str,
        message: str = "",
        *,
        at: float | None = None,
        state: str = "",
    ) -> None:
        """Remember something that happened, and the state seen then; its revision stays.

        Nothing is noted of a sandbox that is gone, nor of a state that is known already: several
        servers see the same end.
        """

    async def events(self, sandbox_id: str, limit: int) -> Sequence[Event]:
        """Return the newest events of a sandbox, oldest of them first."""

    async def key(self, owner: str, key: str) -> UsedKey | None:
        """Return what was made under an idempotency key within its lifetime."""

    async def due(self, sandbox_id: str) -> float:
        """Ask to end a sandbox whose time is over: 0 is yes, else ask again in so many seconds.

        Its time is over when it expired, or when its create did not finish in START_SECONDS. A yes
        is a lease of LEASE_SECONDS and a new revision: nobody else gets a yes meanwhile, and no
        update that was decided before it succeeds. Yes also for what is gone.
        """

    async def changes(self, since: str | None) -> Changes:
        """Return what was inserted, changed, noted with a state or deleted since a position.

        No change is ever missed, whoever makes it; one may be told twice. Without a position, and
        for one that is too old, everything there is.
        """

    async def changed(self) -> None:
        """Return when something may have changed since the last call of changes."""

    async def belong(self, present: Sequence[str]) -> None:
        """Become the store of the data directory, if these sandboxes, which are in it, allow it.

        Raises StartupError for a store that never was its, and knows none of them: they would all
        be nobody's. Does nothing for a store that is shared.
        """

    async def recover(self) -> None:
        """Write something after a failure, to learn when that works again; until cancelled.

        Raises StoreFault while it does not; then call again.
        """

    async def upkeep(self) -> None:
        """Do what the store needs from time to time, until cancelled."""
