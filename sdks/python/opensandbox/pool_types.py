# SPDX-License-Identifier: Apache-2.0
"""What client-side pools are described with: plain values that know no network."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from opensandbox.config import ConnectionConfig, ConnectionConfigSync
from opensandbox.models.images import PlatformSpec, SandboxImageSpec
from opensandbox.models.networks import NetworkPolicy
from opensandbox.models.volumes import Volume

if TYPE_CHECKING:
    from opensandbox._async.sandbox import Sandbox
    from opensandbox._sync.sandbox import SandboxSync


class AcquirePolicy(Enum):
    """What ``acquire`` does when nothing is idle, or what is idle does not answer."""

    FAIL_FAST = "FAIL_FAST"
    """Look at one idle sandbox; raise when it does not answer or there is none."""
    DIRECT_CREATE = "DIRECT_CREATE"
    """Look at one idle sandbox, else make one."""
    RETRY_NEXT_IDLE = "RETRY_NEXT_IDLE"
    """Look at some idle sandboxes (``max_acquire_retries``), else raise."""
    RETRY_NEXT_IDLE_THEN_CREATE = "RETRY_NEXT_IDLE_THEN_CREATE"
    """Look at some idle sandboxes, else make one."""

    @property
    def may_create(self) -> bool:
        """Whether a sandbox is made when no idle one will do."""
        return self in (AcquirePolicy.DIRECT_CREATE, AcquirePolicy.RETRY_NEXT_IDLE_THEN_CREATE)

    def attempts(self, most: int) -> int:
        """Return how many idle sandboxes are looked at."""
        is_patient = self in (
            AcquirePolicy.RETRY_NEXT_IDLE,
            AcquirePolicy.RETRY_NEXT_IDLE_THEN_CREATE,
        )
        return most if is_patient else 1


class PoolState(Enum):
    """How a pool does."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    DRAINING = "DRAINING"
    STOPPED = "STOPPED"


class PoolLifecycleState(Enum):
    """How far a pool is between its start and its shutdown."""

    NOT_STARTED = "NOT_STARTED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    DRAINING = "DRAINING"
    STOPPED = "STOPPED"


class PoolDestroyState(Enum):
    """Whether a pool may be used by anybody who shares its store."""

    ACTIVE = "ACTIVE"
    DESTROYING = "DESTROYING"
    DESTROYED = "DESTROYED"


class PoolDestroyStrategy(Enum):
    """How a pool is destroyed."""

    FORCE = "FORCE"
    """Idle sandboxes are killed; those in use go on."""


@dataclass(frozen=True)
class PoolDestroyOptions:
    """How a pool is destroyed, how long its name stays taken, and how long that may take."""

    strategy: PoolDestroyStrategy = PoolDestroyStrategy.FORCE
    tombstone_ttl: timedelta | None = timedelta(days=7)
    """None keeps the name taken for ever."""
    drain_timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        if self.tombstone_ttl is not None:
            require_positive("tombstone_ttl", self.tombstone_ttl)
        require_not_negative("drain_timeout", self.drain_timeout)


@dataclass(frozen=True)
class PoolDestroyResult:
    """What destroying a pool found and did."""

    pool_name: str
    state: PoolDestroyState
    drained_idle_count: int
    killed_idle_count: int
    persistent_state_cleared: bool


@dataclass(frozen=True)
class IdleEntry:
    """An idle sandbox, and when it ends."""

    sandbox_id: str
    expires_at: datetime


@dataclass(frozen=True)
class StoreCounters:
    """How many sandboxes are idle."""

    idle_count: int


@dataclass(frozen=True)
class TakeIdleResult:
    """An idle sandbox, and those passed over that live on and should be killed."""

    sandbox_id: str | None
    discarded_alive_sandbox_ids: tuple[str, ...] = ()


class PooledSandboxCreateReason(Enum):
    """Why a pool needs a sandbox."""

    WARMUP = "WARMUP"
    DIRECT_CREATE = "DIRECT_CREATE"


@dataclass(frozen=True)
class PooledSandboxCreateContext:
    """What a creator must know to make a sandbox for a pool."""

    pool_name: str
    owner_id: str
    idle_timeout: timedelta
    reason: PooledSandboxCreateReason
    ready_timeout: timedelta
    health_check_polling_interval: timedelta
    skip_health_check: bool
    health_check: "Callable[[SandboxSync], bool] | Callable[[Sandbox], Awaitable[bool]] | None"
    connection_config: ConnectionConfigSync | ConnectionConfig


@dataclass(frozen=True)
class PoolSnapshot:
    """A pool as it is now."""

    state: PoolState
    lifecycle_state: PoolLifecycleState
    idle_count: int
    max_idle: int
    failure_count: int
    backoff_active: bool
    last_error: str | None
    in_flight_operations: int


@dataclass(frozen=True)
class PoolCreationSpec:
    """What the sandboxes of a pool are made of."""

    image: SandboxImageSpec | str
    entrypoint: list[str] | None = None
    resource: dict[str, str] | None = None
    env: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    extensions: dict[str, str] | None = None
    network_policy: NetworkPolicy | None = None
    platform: PlatformSpec | None = None
    secure_access: bool = False
    volumes: list[Volume] | None = None


def require_text(name: str, value: str) -> None:
    """Refuse a blank name."""
    if not value or not value.strip():
        raise ValueError(f"{name} must not be blank")


def require_positive(name: str, value: timedelta | float) -> None:
    """Refuse nothing, and less."""
    if _amount(value) <= 0:
        raise ValueError(f"{name} must be positive")


def require_not_negative(name: str, value: timedelta | float) -> None:
    """Refuse less than nothing."""
    if _amount(value) < 0:
        raise ValueError(f"{name} must not be negative")


def _amount(value: timedelta | float) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else value
