# SPDX-License-Identifier: Apache-2.0
"""Python client of OpenSandbox. Names load what they need when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING

from opensandbox._version import __version__

if TYPE_CHECKING:
    from opensandbox._async.manager import SandboxManager
    from opensandbox._async.sandbox import Sandbox
    from opensandbox._sync.manager import SandboxManagerSync
    from opensandbox._sync.sandbox import SandboxSync
    from opensandbox.compact import SandboxClient
    from opensandbox.pool import (
        AcquirePolicy,
        AsyncPooledSandboxCreator,
        AsyncSandboxPool,
        InMemoryAsyncPoolStateStore,
        InMemoryPoolStateStore,
        PoolCreationSpec,
        PoolDestroyOptions,
        PoolDestroyResult,
        PoolDestroyState,
        PoolDestroyStrategy,
        PooledSandboxCreateContext,
        PooledSandboxCreateReason,
        PooledSandboxCreator,
        SandboxPool,
        SandboxPoolAsync,
        SandboxPoolManager,
        SandboxPoolManagerAsync,
        SandboxPoolManagerSync,
        SandboxPoolSync,
    )

__all__ = [
    "AcquirePolicy",
    "AsyncPooledSandboxCreator",
    "AsyncSandboxPool",
    "InMemoryAsyncPoolStateStore",
    "InMemoryPoolStateStore",
    "PoolCreationSpec",
    "PoolDestroyOptions",
    "PoolDestroyResult",
    "PoolDestroyState",
    "PoolDestroyStrategy",
    "PooledSandboxCreateContext",
    "PooledSandboxCreateReason",
    "PooledSandboxCreator",
    "Sandbox",
    "SandboxClient",
    "SandboxManager",
    "SandboxManagerSync",
    "SandboxPool",
    "SandboxPoolAsync",
    "SandboxPoolManager",
    "SandboxPoolManagerAsync",
    "SandboxPoolManagerSync",
    "SandboxPoolSync",
    "SandboxSync",
    "__version__",
]

_HOMES = {
    "Sandbox": "opensandbox._async.sandbox",
    "SandboxClient": "opensandbox.compact",
    "SandboxManager": "opensandbox._async.manager",
    "SandboxManagerSync": "opensandbox._sync.manager",
    "SandboxSync": "opensandbox._sync.sandbox",
    **dict.fromkeys(
        (
            "AcquirePolicy",
            "AsyncPooledSandboxCreator",
            "AsyncSandboxPool",
            "InMemoryAsyncPoolStateStore",
            "InMemoryPoolStateStore",
            "PoolCreationSpec",
            "PoolDestroyOptions",
            "PoolDestroyResult",
            "PoolDestroyState",
            "PoolDestroyStrategy",
            "PooledSandboxCreateContext",
            "PooledSandboxCreateReason",
            "PooledSandboxCreator",
            "SandboxPool",
            "SandboxPoolAsync",
            "SandboxPoolManager",
            "SandboxPoolManagerAsync",
            "SandboxPoolManagerSync",
            "SandboxPoolSync",
        ),
        "opensandbox.pool",
    ),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
