# SPDX-License-Identifier: Apache-2.0
"""Keeps a pool filled: one of those that share a store looks after it, again and again."""

import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from opensandbox._pool_pace import Pace
from opensandbox.pool_types import PoolDestroyState, TakeIdleResult

from .pool_config import AsyncPoolConfig
from .pool_maker import Maker
from .pool_store import AsyncPoolStateStore
from .sandbox import Sandbox
from .worker import AutoResetEvent, Workers

logger = logging.getLogger("opensandbox")

# A pool looks this often whether something ended or somebody resized it; it is woken for the rest.
PASS_INTERVAL_SECONDS = 1.0
# Bounds waiting for a pass over the store that runs while the pool is shut down.
LAST_PASS_SECONDS = 30.0


class Keeper:
    """Looks after the idle sandboxes of one pool while it runs."""

    def __init__(self, config: AsyncPoolConfig, maker: Maker, workers: Workers) -> None:
        """Do nothing yet; what is started then belongs to ``workers``."""
        self.pace = Pace(
            config.warmup_create_qps, config.warmup_concurrency, config.degraded_threshold
        )
        self._config = config
        self._store = config.state_store
        self._maker = maker
        self._workers = workers
        self._passes = Workers(f"pool {config.pool_name} keeper")
        self._wakeup = AutoResetEvent()
        self._lock = threading.Lock()  # never held while anything is waited for
        self._warming = 0
        self._run = 0
        self._is_stopped = True

    def start(self) -> None:
        """Begin to fill the pool."""
        self._run += 1
        self._is_stopped = False
        run = self._run
        self._passes.start(lambda: self._keep(run))

    async def stop(self) -> None:
        """Fill the pool no more, and let another one do it. What is being made is killed then."""
        self._is_stopped = True
        self._wakeup.set()
        await self._passes.wait(LAST_PASS_SECONDS)
        try:
            await self._store.release_primary_lock(self._config.pool_name, self._config.owner)
        except Exception:
            logger.warning("pool: the lock could not be released; it expires", exc_info=True)

    def wake(self) -> None:
        """Look again now: something was taken or changed."""
        self._wakeup.set()

    def dispose(self, sandbox_id: str) -> None:
        """Kill a sandbox beside everything else."""
        self._workers.start(lambda: self._maker.kill(sandbox_id))

    async def max_idle(self) -> int:
        """Return how many shall be idle: what was said last to any pool of this name."""
        stored = await self._store.get_max_idle(self._config.pool_name)
        return self._config.max_idle if stored is None else stored

    def is_current(self, run: int) -> bool:
        """Whether what began in a run may go on."""
        return run == self._run and not self._is_stopped

    async def _keep(self, run: int) -> None:
        while self.is_current(run):
            try:
                await self._pass(run)
            except Exception:
                logger.warning("pool %s: a pass failed", self._config.pool_name, exc_info=True)
            await self._wakeup.wait(PASS_INTERVAL_SECONDS)

    async def _pass(self, run: int) -> None:
        config = self._config
        name = config.pool_name
        if await self._store.get_destroy_state(name) is not PoolDestroyState.ACTIVE:
            logger.info("pool %s is destroyed: no more sandboxes are made for it", name)
            self._is_stopped = True
            return
        ttl = config.primary_lock_ttl
        if not await self._store.try_acquire_primary_lock(name, config.owner, ttl):
            return
        for ending in await reap(self._store, name, config.min_remaining_ttl):
            self.dispose(ending)
        idle = (await self._store.snapshot_counters(name)).idle_count
        wanted = await self.max_idle()
        if idle > wanted:
            await self._shrink(min(idle - wanted, config.warmup_concurrency))
        else:
            self._grow(wanted - idle, run)

    async def _shrink(self, count: int) -> None:
        for _ in range(count):
            sandbox_id = await self._store.try_take_idle(self._config.pool_name)
            if sandbox_id is None:
                return
            self.dispose(sandbox_id)

    def _grow(self, missing: int, run: int) -> None:
        with self._lock:
            warming = self._warming
            count = self.pace.start(missing - warming, warming, time.monotonic())
            self._warming += count
        for _ in range(count):
            self._workers.start(lambda: self._warm_up(run))

    async def _warm_up(self, run: int) -> None:
        try:
            sandbox = await self._maker.warm()
            await self._commit(sandbox, run)
        except Exception as error:
            logger.warning("pool %s: no sandbox was made", self._config.pool_name, exc_info=True)
            with self._lock:
                self.pace.fail(str(error) or type(error).__name__, time.monotonic())
        else:
            with self._lock:
                self.pace.succeed()
        finally:
            with self._lock:
                self._warming -= 1
            self._wakeup.set()

    async def _commit(self, sandbox: Sandbox, run: int) -> None:
        if not self.is_current(run):
            await self._maker.discard(sandbox)
            return
        try:
            await self._store.put_idle(self._config.pool_name, sandbox.id)
        except BaseException:
            await self._maker.discard(sandbox)
            raise
        await sandbox.close()


async def take(
    store: AsyncPoolStateStore, pool_name: str, min_remaining_ttl: timedelta
) -> TakeIdleResult:
    """Take an idle sandbox that lives for so long, where the store can tell."""
    extended: Any = store
    if min_remaining_ttl and hasattr(store, "try_take_idle_min_ttl"):
        taken: TakeIdleResult = await extended.try_take_idle_min_ttl(pool_name, min_remaining_ttl)
        return taken
    return TakeIdleResult(await store.try_take_idle(pool_name))


async def reap(
    store: AsyncPoolStateStore, pool_name: str, min_remaining_ttl: timedelta
) -> tuple[str, ...]:
    """Forget idle sandboxes that end soon, and return those that live yet."""
    extended: Any = store
    now = datetime.now(UTC)
    if min_remaining_ttl and hasattr(store, "reap_expired_idle_min_ttl"):
        return tuple(await extended.reap_expired_idle_min_ttl(pool_name, now, min_remaining_ttl))
    await store.reap_expired_idle(pool_name, now)
    return ()
