# SPDX-License-Identifier: Apache-2.0
"""Ends pools for everybody who shares their store."""

import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import PoolDestroyedException, PoolDestroyIncompleteException
from opensandbox.pool_types import PoolDestroyOptions, PoolDestroyResult, PoolDestroyState

from .manager import SandboxManager
from .pool_maker import kill_quietly
from .pool_store import AsyncPoolStateStore


class SandboxPoolManagerAsync:
    """Works on pools by their names, without being one of them."""

    def __init__(
        self,
        *,
        state_store: AsyncPoolStateStore,
        connection_config: ConnectionConfig | None = None,
        owner_id: str | None = None,
        sandbox_manager_factory: Callable[..., Awaitable[SandboxManager]] = SandboxManager.create,
    ) -> None:
        """Work on the pools of this store."""
        self._store = state_store
        self._connection_config = connection_config or ConnectionConfig()
        self._owner_id = owner_id or f"pool-manager-{uuid4()}"
        self._new_manager = sandbox_manager_factory

    async def destroy(
        self, pool_name: str, options: PoolDestroyOptions | None = None
    ) -> PoolDestroyResult:
        """End a pool: nobody can use it any more, what is idle is killed, its name stays taken.

        Sandboxes in use go on. When it does not come to its end, do it again.
        """
        options = options or PoolDestroyOptions()
        if await self._store.get_destroy_state(pool_name) is PoolDestroyState.DESTROYED:
            return _destroyed(pool_name)
        try:
            await self._store.begin_destroy(pool_name, self._owner_id)
        except PoolDestroyedException:
            return _destroyed(pool_name)
        drained, killed = await self._drain(pool_name, options.drain_timeout.total_seconds())
        try:
            await self._store.clear_pool_state(pool_name)
            await self._store.mark_destroyed(pool_name, self._owner_id, options.tombstone_ttl)
        except Exception as cause:
            message = f"pool {pool_name} is empty, but its store failed; destroy it again"
            raise PoolDestroyIncompleteException(message, cause) from cause
        return PoolDestroyResult(pool_name, PoolDestroyState.DESTROYED, drained, killed, True)

    async def _drain(self, pool_name: str, seconds: float) -> tuple[int, int]:
        deadline = time.monotonic() + seconds
        drained = killed = 0
        async with await self._new_manager(self._connection_config) as manager:
            while (sandbox_id := await self._store.try_take_idle(pool_name)) is not None:
                drained += 1
                killed += await kill_quietly(manager, sandbox_id)
                if seconds > 0 and time.monotonic() > deadline:
                    message = f"pool {pool_name}: not empty in {seconds} s; destroy it again"
                    raise PoolDestroyIncompleteException(message)
        return drained, killed


def _destroyed(pool_name: str) -> PoolDestroyResult:
    return PoolDestroyResult(pool_name, PoolDestroyState.DESTROYED, 0, 0, False)
