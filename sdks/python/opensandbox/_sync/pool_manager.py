# SPDX-License-Identifier: Apache-2.0
# Made from _async/pool_manager.py by scripts/unasync.py; change it there.
"""Ends pools for everybody who shares their store."""

import time
from collections.abc import Callable
from uuid import uuid4

from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import PoolDestroyedException, PoolDestroyIncompleteException
from opensandbox.pool_types import PoolDestroyOptions, PoolDestroyResult, PoolDestroyState

from .manager import SandboxManagerSync
from .pool_maker import kill_quietly
from .pool_store import PoolStateStore


class SandboxPoolManagerSync:
    """Works on pools by their names, without being one of them."""

    def __init__(
        self,
        *,
        state_store: PoolStateStore,
        connection_config: ConnectionConfigSync | None = None,
        owner_id: str | None = None,
        sandbox_manager_factory: Callable[..., SandboxManagerSync] = SandboxManagerSync.create,
    ) -> None:
        """Work on the pools of this store."""
        self._store = state_store
        self._connection_config = connection_config or ConnectionConfigSync()
        self._owner_id = owner_id or f"pool-manager-{uuid4()}"
        self._new_manager = sandbox_manager_factory

    def destroy(
        self, pool_name: str, options: PoolDestroyOptions | None = None
    ) -> PoolDestroyResult:
        """End a pool: nobody can use it any more, what is idle is killed, its name stays taken.

        Sandboxes in use go on. When it does not come to its end, do it again.
        """
        options = options or PoolDestroyOptions()
        if self._store.get_destroy_state(pool_name) is PoolDestroyState.DESTROYED:
            return _destroyed(pool_name)
        try:
            self._store.begin_destroy(pool_name, self._owner_id)
        except PoolDestroyedException:
            return _destroyed(pool_name)
        drained, killed = self._drain(pool_name, options.drain_timeout.total_seconds())
        try:
            self._store.clear_pool_state(pool_name)
            self._store.mark_destroyed(pool_name, self._owner_id, options.tombstone_ttl)
        except Exception as cause:
            message = f"pool {pool_name} is empty, but its store failed; destroy it again"
            raise PoolDestroyIncompleteException(message, cause) from cause
        return PoolDestroyResult(pool_name, PoolDestroyState.DESTROYED, drained, killed, True)

    def _drain(self, pool_name: str, seconds: float) -> tuple[int, int]:
        deadline = time.monotonic() + seconds
        drained = killed = 0
        with self._new_manager(self._connection_config) as manager:
            while (sandbox_id := self._store.try_take_idle(pool_name)) is not None:
                drained += 1
                killed += kill_quietly(manager, sandbox_id)
                if seconds > 0 and time.monotonic() > deadline:
                    message = f"pool {pool_name}: not empty in {seconds} s; destroy it again"
                    raise PoolDestroyIncompleteException(message)
        return drained, killed


def _destroyed(pool_name: str) -> PoolDestroyResult:
    return PoolDestroyResult(pool_name, PoolDestroyState.DESTROYED, 0, 0, False)
