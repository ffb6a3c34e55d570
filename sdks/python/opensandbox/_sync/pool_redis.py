# SPDX-License-Identifier: Apache-2.0
# Made from _async/pool_redis.py by scripts/unasync.py; change it there.
"""A store in Redis, for pools of several processes.

Every call is one script, so that it is done as a whole or not at all, by the server's own clock.
The keys and values are those of the published client: both can share a pool.
"""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from opensandbox import _pool_scripts as scripts
from opensandbox.exceptions import PoolDestroyedException, PoolStateStoreUnavailableException
from opensandbox.pool_types import (
    IdleEntry,
    PoolDestroyState,
    StoreCounters,
    TakeIdleResult,
    require_not_negative,
    require_positive,
    require_text,
)

try:
    from redis.exceptions import RedisError
except ImportError as cause:
    raise ImportError('pools in Redis need: pip install "opensandbox[pool-redis]"') from cause


class Redis(Protocol):
    """What is used of a client of the redis package, which the caller makes and closes."""

    def eval(self, script: str, numkeys: int, *keys_and_args: str) -> Any:
        """Run a script on the server."""
        ...


class RedisPoolStateStore:
    """Where pools of several processes share their idle sandboxes."""

    DEFAULT_KEY_PREFIX = "opensandbox:pool"

    def __init__(self, redis: Redis, key_prefix: str = DEFAULT_KEY_PREFIX) -> None:
        """Keep everything below a prefix; pools that share must have the same one."""
        require_text("key_prefix", key_prefix)
        self._redis = redis
        self._key_prefix = key_prefix

    def try_take_idle(self, pool_name: str) -> str | None:
        """Take the oldest idle sandbox that has not ended."""
        return (self.try_take_idle_min_ttl(pool_name, timedelta(0))).sandbox_id

    def try_take_idle_min_ttl(
        self, pool_name: str, min_remaining_ttl: timedelta
    ) -> TakeIdleResult:
        """Take the oldest idle sandbox that lives for so long; name those that end sooner."""
        require_not_negative("min_remaining_ttl", min_remaining_ttl)
        taken, *passed_over = self._ask(
            scripts.TAKE_IDLE, pool_name, _milliseconds(min_remaining_ttl)
        )
        return TakeIdleResult(_text(taken) or None, tuple(_text(name) for name in passed_over))

    def put_idle(self, pool_name: str, sandbox_id: str) -> None:
        """Add an idle sandbox."""
        require_text("sandbox_id", sandbox_id)
        self._write(scripts.PUT_IDLE, pool_name, sandbox_id)

    def remove_idle(self, pool_name: str, sandbox_id: str) -> None:
        """Forget an idle sandbox."""
        self._ask(scripts.REMOVE_IDLE, pool_name, sandbox_id)

    def try_acquire_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool:
        """Become the one that fills the pool, or stay it."""
        require_text("owner_id", owner_id)
        require_positive("ttl", ttl)
        answer = self._ask(scripts.ACQUIRE_LOCK, pool_name, owner_id, _milliseconds(ttl))
        return bool(answer)

    def renew_primary_lock(self, pool_name: str, owner_id: str, ttl: timedelta) -> bool:
        """Stay the one that fills the pool."""
        require_positive("ttl", ttl)
        answer = self._ask(scripts.RENEW_LOCK, pool_name, owner_id, _milliseconds(ttl))
        return bool(answer)

    def release_primary_lock(self, pool_name: str, owner_id: str) -> None:
        """Let somebody else fill the pool."""
        self._ask(scripts.RELEASE_LOCK, pool_name, owner_id)

    def reap_expired_idle(self, pool_name: str, now: datetime) -> None:
        """Forget idle sandboxes that have ended; the server's clock counts, not ``now``."""
        self.reap_expired_idle_min_ttl(pool_name, now, timedelta(0))

    def reap_expired_idle_min_ttl(
        self,
        pool_name: str,
        now: datetime,  # noqa: ARG002
        min_remaining_ttl: timedelta,
    ) -> tuple[str, ...]:
        """Forget idle sandboxes that end within so long; name those that live on."""
        answer = self._ask(scripts.REAP_IDLE, pool_name, _milliseconds(min_remaining_ttl))
        return tuple(_text(sandbox_id) for sandbox_id in answer)

    def snapshot_counters(self, pool_name: str) -> StoreCounters:
        """Return how many are idle."""
        return StoreCounters(int(self._ask(scripts.COUNT_IDLE, pool_name)))

    def snapshot_idle_entries(self, pool_name: str) -> list[IdleEntry]:
        """Return the idle ones, oldest first."""
        answer = [_text(item) for item in self._ask(scripts.LIST_IDLE, pool_name)]
        pairs = zip(answer[::2], answer[1::2], strict=True)
        return [IdleEntry(sandbox_id, _time(expires_at)) for sandbox_id, expires_at in pairs]

    def get_max_idle(self, pool_name: str) -> int | None:
        """Return how many shall be idle, if somebody said so."""
        answer = self._ask(scripts.GET_MAX_IDLE, pool_name)
        return None if answer is None else int(answer)

    def set_max_idle(self, pool_name: str, max_idle: int) -> None:
        """Say how many shall be idle."""
        require_not_negative("max_idle", max_idle)
        self._write(scripts.SET_MAX_IDLE, pool_name, str(max_idle))

    def set_idle_entry_ttl(self, pool_name: str, idle_ttl: timedelta) -> None:
        """Say how long an idle sandbox lives from when it is put in."""
        require_positive("idle_ttl", idle_ttl)
        self._write(scripts.SET_IDLE_TTL, pool_name, _milliseconds(idle_ttl))

    def get_destroy_state(self, pool_name: str) -> PoolDestroyState:
        """Return whether the pool may be used."""
        answer = self._ask(scripts.GET_DESTROY_STATE, pool_name)
        return PoolDestroyState.ACTIVE if answer is None else PoolDestroyState(_text(answer))

    def begin_destroy(self, pool_name: str, owner_id: str) -> None:
        """Refuse writes from now on."""
        require_text("owner_id", owner_id)
        self._write(scripts.BEGIN_DESTROY, pool_name, owner_id)

    def clear_pool_state(self, pool_name: str) -> None:
        """Forget everything but that the pool is being destroyed."""
        self._ask(scripts.CLEAR, pool_name)

    def mark_destroyed(
        self, pool_name: str, owner_id: str, tombstone_ttl: timedelta | None
    ) -> None:
        """Keep the name taken for this long; None for ever."""
        require_text("owner_id", owner_id)
        ttl = "0" if tombstone_ttl is None else _milliseconds(tombstone_ttl)
        self._ask(scripts.MARK_DESTROYED, pool_name, owner_id, ttl)

    def _write(self, script: str, pool_name: str, *values: str) -> None:
        if self._ask(script, pool_name, *values) == scripts.REFUSED:
            raise PoolDestroyedException(f"pool {pool_name} is destroyed; use another name")

    def _ask(self, script: str, pool_name: str, *values: str) -> Any:
        require_text("pool_name", pool_name)
        # What is in braces decides where a cluster keeps a key: all of a pool are in one place.
        tag = base64.urlsafe_b64encode(pool_name.encode()).decode().rstrip("=")
        keys = [f"{self._key_prefix}:{{{tag}}}:{name}" for name in scripts.KEYS]
        try:
            return self._redis.eval(script, len(keys), *keys, *values)
        except (RedisError, OSError) as cause:
            message = f"the store of pool {pool_name} cannot be used: {cause}"
            raise PoolStateStoreUnavailableException(message, cause, is_retryable=True) from cause


def _milliseconds(time: timedelta) -> str:
    return str(max(0, round(time / timedelta(milliseconds=1))))


def _time(milliseconds: str) -> datetime:
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
