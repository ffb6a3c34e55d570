# SPDX-License-Identifier: Apache-2.0
"""Client-side pools: sandboxes made ahead of those who will want them."""

from opensandbox._async.pool import SandboxPoolAsync
from opensandbox._async.pool_config import AsyncPoolConfig, AsyncPooledSandboxCreator
from opensandbox._async.pool_manager import SandboxPoolManagerAsync
from opensandbox._async.pool_store import AsyncPoolStateStore, InMemoryAsyncPoolStateStore
from opensandbox._sync.pool import SandboxPoolSync
from opensandbox._sync.pool_config import PoolConfig, PooledSandboxCreator
from opensandbox._sync.pool_manager import SandboxPoolManagerSync
from opensandbox._sync.pool_store import InMemoryPoolStateStore, PoolStateStore
from opensandbox.pool_types import (
    AcquirePolicy,
    IdleEntry,
    PoolCreationSpec,
    PoolDestroyOptions,
    PoolDestroyResult,
    PoolDestroyState,
    PoolDestroyStrategy,
    PooledSandboxCreateContext,
    PooledSandboxCreateReason,
    PoolLifecycleState,
    PoolSnapshot,
    PoolState,
    StoreCounters,
    TakeIdleResult,
)

AsyncSandboxPool = SandboxPoolAsync
SandboxPool = SandboxPoolSync
SandboxPoolManager = SandboxPoolManagerSync

__all__ = [
    "AcquirePolicy",
    "AsyncPoolConfig",
    "AsyncPoolStateStore",
    "AsyncPooledSandboxCreator",
    "AsyncSandboxPool",
    "IdleEntry",
    "InMemoryAsyncPoolStateStore",
    "InMemoryPoolStateStore",
    "PoolConfig",
    "PoolCreationSpec",
    "PoolDestroyOptions",
    "PoolDestroyResult",
    "PoolDestroyState",
    "PoolDestroyStrategy",
    "PoolLifecycleState",
    "PoolSnapshot",
    "PoolState",
    "PoolStateStore",
    "PooledSandboxCreateContext",
    "PooledSandboxCreateReason",
    "PooledSandboxCreator",
    "SandboxPool",
    "SandboxPoolAsync",
    "SandboxPoolManager",
    "SandboxPoolManagerAsync",
    "SandboxPoolManagerSync",
    "SandboxPoolSync",
    "StoreCounters",
    "TakeIdleResult",
]
