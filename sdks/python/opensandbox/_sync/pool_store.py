# SPDX-License-Identifier: Apache-2.0
# Made from _async/pool_store.py by scripts/unasync.py; change it there.
"""What a pool remembers, and where: the interface of stores, and the one in memory."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from opensandbox.exceptions import PoolDestroyedException
from opensandbox.pool_types import (
    IdleEntry,
    PoolDestroyState,
    StoreCounters,
    TakeIdleResult,
    require_not_negative,
    require_positive,
    require_text,
)

DEFAULT_IDLE_TTL = timedelta(hours=24)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class PoolStateStore(Protocol):
    """Where pools of one name share their idle sandboxes.

    A store that cannot be reached raises PoolStateStoreUnavailableException. Writing to a pool that
    is being destroyed raises PoolDestroyedException. Two more methods are used where a store has
    them: ``try_take_idle_min_ttl`` and ``reap_expired_idle_min_ttl``.
    """

    def try_take_idle(self, pool_name: str) -> str | None:
        """Take the oldest idle sandbox that has not ended; nobody else gets it."""
        ...

    def put_idle(self, pool_name: str, sandbox_id: str) -> None:
        """Add an idle sandbox; it ends after the time set for entries. Repeats change nothing."""
        ...

    def remove_idle(self, pool_name: str, sandbox_id: str) -> None:
        """Forget an idle sandbox; one that is not there is no error."""
        ...

    def try_acquire_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool:
        """Become the one that fills the pool, or stay it."""
        ...

    def renew_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool:
        """Stay the one that fills the pool; False when somebody else is."""
        ...

    def release_primary_lock(self, pool_name: str, owner_id: str) -> None:
        """Let somebody else fill the pool."""
        ...

    def reap_expired_idle(self, pool_name: str, now: datetime) -> None:
        """Forget idle sandboxes that have ended."""
        ...

    def snapshot_counters(self, pool_name: str) -> StoreCounters:
        """Return how many are idle."""
        ...

    def snapshot_idle_entries(self, pool_name: str) -> list[IdleEntry]:
        """Return the idle ones, oldest first."""
        ...

    def get_max_idle(self, pool_name: str) -> int | None:
        """Return how many shall be idle, if somebody said so."""
        ...

    def set_max_idle(self, pool_name: str, max_idle: int) -> None:
        """Say how many shall be idle."""
        ...

    def set_idle_entry_ttl(self, pool_name: str, idle_ttl: timedelta) -> None:
        """Say how long an idle sandbox lives from when it is put in."""
        ...

    def get_destroy_state(self, pool_name: str) -> PoolDestroyState:
        """Return whether the pool may be used."""
        ...

    def begin_destroy(self, pool_name: str, owner_id: str) -> None:
        """Refuse writes from now on. Repeating is no error, until it is destroyed."""
        ...

    def clear_pool_state(self, pool_name: str) -> None:
        """Forget everything but that the pool is being destroyed."""
        ...

    def mark_destroyed(
        self, pool_name: str, owner_id: str, tombstone_ttl: timedelta | None
    ) -> None:
        """Keep the name taken for this long; None for ever."""
        ...


@dataclass
class _Pool:
    idle: OrderedDict[str, datetime] = field(default_factory=OrderedDict)
    idle_ttl: timedelta = DEFAULT_IDLE_TTL
    max_idle: int | None = None
    owner: str | None = None
    owned_until: datetime = _LONG_AGO
    destroy_state: PoolDestroyState = PoolDestroyState.ACTIVE
    tombstone_until: datetime | None = None


class InMemoryPoolStateStore:
    """A store for pools of one process. Nothing of it survives the process."""

    def __init__(self) -> None:
        """Begin empty."""
        self._pools: dict[str, _Pool] = {}
        self._lock = threading.Lock()  # never held while anything is waited for

    def try_take_idle(self, pool_name: str) -> str | None:
        """Take the oldest idle sandbox that has not ended."""
        return (self.try_take_idle_min_ttl(pool_name, timedelta(0))).sandbox_id

    def try_take_idle_min_ttl(
        self, pool_name: str, min_remaining_ttl: timedelta
    ) -> TakeIdleResult:
        """Take the oldest idle sandbox that lives for so long; name those that end sooner."""
        now = datetime.now(UTC)
        with self._lock:
            pool = self._pool(pool_name)
            passed_over: list[str] = []
            while pool.idle:
                sandbox_id, expires_at = pool.idle.popitem(last=False)
                if expires_at > now + min_remaining_ttl:
                    return TakeIdleResult(sandbox_id, tuple(passed_over))
                if expires_at > now:
                    passed_over.append(sandbox_id)
            return TakeIdleResult(None, tuple(passed_over))

    def put_idle(self, pool_name: str, sandbox_id: str) -> None:
        """Add an idle sandbox."""
        require_text("sandbox_id", sandbox_id)
        with self._lock:
            pool = self._active_pool(pool_name)
            pool.idle.setdefault(sandbox_id, datetime.now(UTC) + pool.idle_ttl)

    def remove_idle(self, pool_name: str, sandbox_id: str) -> None:
        """Forget an idle sandbox."""
        with self._lock:
            self._pool(pool_name).idle.pop(sandbox_id, None)

    def try_acquire_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool:
        """Become the one that fills the pool, or stay it."""
        require_text("owner_id", owner_id)
        require_positive("ttl", ttl)
        now = datetime.now(UTC)
        with self._lock:
            pool = self._pool(pool_name)
            is_free = pool.owner in (None, owner_id) or pool.owned_until <= now
            if not is_free or pool.destroy_state is not PoolDestroyState.ACTIVE:
                return False
            pool.owner, pool.owned_until = owner_id, now + ttl
            return True

    def renew_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool:
        """Stay the one that fills the pool."""
        now = datetime.now(UTC)
        with self._lock:
            pool = self._pool(pool_name)
            if pool.owner != owner_id or pool.owned_until <= now:
                return False
            pool.owned_until = now + ttl
            return True

    def release_primary_lock(self, pool_name: str, owner_id: str) -> None:
        """Let somebody else fill the pool."""
        with self._lock:
            pool = self._pool(pool_name)
            if pool.owner == owner_id:
                pool.owner = None

    def reap_expired_idle(self, pool_name: str, now: datetime) -> None:
        """Forget idle sandboxes that have ended."""
        self.reap_expired_idle_min_ttl(pool_name, now, timedelta(0))

    def reap_expired_idle_min_ttl(
        self, pool_name: str, now: datetime, min_remaining_ttl: timedelta
    ) -> tuple[str, ...]:
        """Forget idle sandboxes that end within so long; name those that live on."""
        with self._lock:
            idle = self._pool(pool_name).idle
            late = [name for name, end in idle.items() if end <= now + min_remaining_ttl]
            return tuple(sandbox_id for sandbox_id in late if idle.pop(sandbox_id) > now)

    def snapshot_counters(self, pool_name: str) -> StoreCounters:
        """Return how many are idle."""
        return StoreCounters(len(self.snapshot_idle_entries(pool_name)))

    def snapshot_idle_entries(self, pool_name: str) -> list[IdleEntry]:
        """Return the idle ones, oldest first."""
        with self._lock:
            return [IdleEntry(*item) for item in self._pool(pool_name).idle.items()]

    def get_max_idle(self, pool_name: str) -> int | None:
        """Return how many shall be idle, if somebody said so."""
        with self._lock:
            return self._pool(pool_name).max_idle

    def set_max_idle(self, pool_name: str, max_idle: int) -> None:
        """Say how many shall be idle."""
        require_not_negative("max_idle", max_idle)
        with self._lock:
            self._active_pool(pool_name).max_idle = max_idle

    def set_idle_entry_ttl(self, pool_name: str, idle_ttl: timedelta) -> None:
        """Say how long an idle sandbox lives from when it is put in."""
        require_positive("idle_ttl", idle_ttl)
        with self._lock:
            self._active_pool(pool_name).idle_ttl = idle_ttl

    def get_destroy_state(self, pool_name: str) -> PoolDestroyState:
        """Return whether the pool may be used."""
        with self._lock:
            return self._pool(pool_name).destroy_state

    def begin_destroy(self, pool_name: str, owner_id: str) -> None:
        """Refuse writes from now on."""
        require_text("owner_id", owner_id)
        with self._lock:
            pool = self._pool(pool_name)
            if pool.destroy_state is PoolDestroyState.DESTROYED:
                raise PoolDestroyedException(f"pool {pool_name} is destroyed already")
            pool.destroy_state = PoolDestroyState.DESTROYING
            pool.owner = None

    def clear_pool_state(self, pool_name: str) -> None:
        """Forget everything but that the pool is being destroyed."""
        with self._lock:
            state = self._pool(pool_name).destroy_state
            self._pools[pool_name] = _Pool(destroy_state=state)

    def mark_destroyed(
        self, pool_name: str, owner_id: str, tombstone_ttl: timedelta | None
    ) -> None:
        """Keep the name taken for this long; None for ever."""
        require_text("owner_id", owner_id)
        with self._lock:
            pool = self._pool(pool_name)
            pool.destroy_state = PoolDestroyState.DESTROYED
            pool.tombstone_until = (
                None if tombstone_ttl is None else datetime.now(UTC) + tombstone_ttl
            )

    def _pool(self, pool_name: str) -> _Pool:
        require_text("pool_name", pool_name)
        pool = self._pools.setdefault(pool_name, _Pool())
        if pool.tombstone_until is not None and pool.tombstone_until <= datetime.now(UTC):
            pool = self._pools[pool_name] = _Pool()
        return pool

    def _active_pool(self, pool_name: str) -> _Pool:
        pool = self._pool(pool_name)
        if pool.destroy_state is not PoolDestroyState.ACTIVE:
            state = pool.destroy_state.value.lower()
            raise PoolDestroyedException(f"pool {pool_name} is {state}; use another name")
        return pool
