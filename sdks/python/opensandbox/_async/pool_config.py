# SPDX-License-Identifier: Apache-2.0
"""How a pool is configured."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol, Self
from uuid import uuid4

from opensandbox.config import ConnectionConfig
from opensandbox.pool_types import (
    PoolCreationSpec,
    PooledSandboxCreateContext,
    require_not_negative,
    require_positive,
    require_text,
)

from .pool_store import AsyncPoolStateStore
from .sandbox import Sandbox

DEFAULT_MIN_REMAINING_TTL = timedelta(seconds=60)


class AsyncPooledSandboxCreator(Protocol):
    """Makes sandboxes for a pool in another way."""

    async def __call__(self, context: PooledSandboxCreateContext) -> Sandbox:
        """Make a sandbox that lives for ``context.idle_timeout`` and is ready."""
        ...


@dataclass(frozen=True)
class AsyncPoolConfig:
    """Everything that can be said about a pool, and what holds when it is not."""

    pool_name: str
    max_idle: int
    state_store: AsyncPoolStateStore
    connection_config: ConnectionConfig
    creation_spec: PoolCreationSpec
    owner_id: str | None = None
    """Who this is among those that share the store; None makes one up."""
    warmup_create_qps: int = 10
    """How many sandboxes are begun in a second."""
    warmup_concurrency: int = 128
    """How many sandboxes are being made at a time."""
    primary_lock_ttl: timedelta = timedelta(seconds=60)
    degraded_threshold: int = 3
    acquire_ready_timeout: timedelta = timedelta(seconds=30)
    acquire_health_check_polling_interval: timedelta = timedelta(milliseconds=200)
    acquire_health_check: Callable[[Sandbox], Awaitable[bool]] | None = None
    acquire_skip_health_check: bool = False
    warmup_ready_timeout: timedelta = timedelta(seconds=30)
    warmup_health_check_initial_delay: timedelta = timedelta(0)
    warmup_health_check_polling_interval: timedelta = timedelta(milliseconds=500)
    warmup_health_check: Callable[[Sandbox], Awaitable[bool]] | None = None
    warmup_sandbox_preparer: Callable[[Sandbox], Awaitable[None]] | None = None
    """Called with every new sandbox before it counts as idle."""
    warmup_post_prepare_health_check: Callable[[Sandbox], Awaitable[bool]] | None = None
    warmup_post_prepare_health_check_timeout: timedelta = timedelta(seconds=30)
    warmup_skip_health_check: bool = False
    idle_timeout: timedelta = timedelta(hours=24)
    """How long an idle sandbox lives."""
    drain_timeout: timedelta = timedelta(seconds=30)
    acquire_min_remaining_ttl: timedelta | None = None
    """How long an idle sandbox must have to live yet; None is a minute, or half of its life."""
    sandbox_creator: AsyncPooledSandboxCreator | None = None
    max_acquire_retries: int = 3

    def __post_init__(self) -> None:
        require_text("pool_name", self.pool_name)
        if self.owner_id is None:
            object.__setattr__(self, "owner_id", f"pool-{uuid4()}")
        require_text("owner_id", self.owner)
        require_not_negative("max_idle", self.max_idle)
        for name in (
            "warmup_create_qps",
            "warmup_concurrency",
            "degraded_threshold",
            "max_acquire_retries",
            "primary_lock_ttl",
            "acquire_ready_timeout",
            "acquire_health_check_polling_interval",
            "warmup_ready_timeout",
            "warmup_health_check_polling_interval",
            "warmup_post_prepare_health_check_timeout",
            "idle_timeout",
        ):
            require_positive(name, getattr(self, name))
        for name in ("warmup_health_check_initial_delay", "drain_timeout"):
            require_not_negative(name, getattr(self, name))
        self._settle_min_remaining_ttl()

    @property
    def owner(self) -> str:
        """Who this is among those that share the store."""
        return self.owner_id or ""

    @property
    def min_remaining_ttl(self) -> timedelta:
        """How long an idle sandbox must have to live yet."""
        return self.acquire_min_remaining_ttl or timedelta(0)

    def with_max_idle(self, max_idle: int) -> Self:
        """Return the same for another number of idle sandboxes."""
        return replace(self, max_idle=max_idle)

    def _settle_min_remaining_ttl(self) -> None:
        settled = self.acquire_min_remaining_ttl
        if settled is None:
            settled = min(DEFAULT_MIN_REMAINING_TTL, self.idle_timeout / 2)
            object.__setattr__(self, "acquire_min_remaining_ttl", settled)
        require_not_negative("acquire_min_remaining_ttl", settled)
        if settled >= self.idle_timeout:
            raise ValueError(
                f"acquire_min_remaining_ttl ({settled}) must be less than "
                f"idle_timeout ({self.idle_timeout}), or no idle sandbox would ever do"
            )
