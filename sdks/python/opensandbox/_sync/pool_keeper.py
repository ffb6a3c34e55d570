# SPDX-License-Identifier: Apache-2.0
# Made from _async/pool_keeper.py by scripts/unasync.py; change it there.
"""Keeps a pool filled: one of those that share a store looks after it, again and again."""

import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from opensandbox._pool_pace import Pace
from opensandbox.pool_types import PoolDestroyState, TakeIdleResult

from .pool_config import PoolConfig
from .pool_maker import Maker
from .pool_store import PoolStateStore
from .sandbox import SandboxSync
from .worker import AutoResetEvent, Workers

logger = logging.getLogger("opensandbox")

# A pool looks this often whether something ended or somebody resized it; it is woken for the rest.
PASS_INTERVAL_SECONDS = 1.0
# Bounds waiting for a pass over the store that runs while the pool is shut down.
LAST_PASS_SECONDS = 30.0


class Keeper:
    """Looks after the idle sandboxes of one pool while it runs."""

    def __init__(self, config: PoolConfig, maker: Maker, workers: Workers) -> None:
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

    def stop(self) -> None:
        """Fill the pool no more, and let another one do it. What is being made is killed then."""
        self._is_stopped = True
        self._wakeup.set()
        self._passes.wait(LAST_PASS_SECONDS)
        try:
            self._store.release_primary_lock(self._config.pool_name, self._config.owner)
        except Exception:
            logger.warning("pool: the lock could not be released; it expires", exc_info=True)

    def wake(self) -> None:
        """Look again now: something was taken or changed."""
        self._wakeup.set()

    def dispose(self, sandbox_id: str) -> None:
        """Kill a sandbox beside everything else."""
        self._workers.start(lambda: self._maker.kill(sandbox_id))

    def max_idle(self) -> int:
        """Return how many shall be idle: what was said last to any pool of this name."""
        stored = self._store.get_max_idle(self._config.pool_name)
        return self._config.max_idle if stored is None else stored

    def is_current(self, run: int) -> bool:
        """Whether what began in a run may go on."""
        return run == self._run and not self._is_stopped

    def _keep(self, run: int) -> None:
        while self.is_current(run):
            try:
                self._pass(run)
            except Exception:
                logger.warning("pool %s: a pass failed", self._config.pool_name, exc_info=True)
            self._wakeup.wait(PASS_INTERVAL_SECONDS)

    def _pass(self, run: int) -> None:
        config = self._config
        name = config.pool_name
        if self._store.get_destroy_state(name) is not PoolDestroyState.ACTIVE:
            logger.info("pool %s is destroyed: no more sandboxes are made for it", name)
            self._is_stopped = True
            return
        ttl = config.primary_lock_ttl
        if not self._store.try_acquire_primary_lock(name, config.owner, ttl):
            return
        for ending in reap(self._store, name, config.min_remaining_ttl):
            self.dispose(ending)
        idle = (self._store.snapshot_counters(name)).idle_count
        wanted = self.max_idle()
        if idle > wanted:
            self._shrink(min(idle - wanted, config.warmup_concurrency))
        else:
            self._grow(wanted - idle, run)

    def _shrink(self, count: int) -> None:
        for _ in range(count):
            sandbox_id = self._store.try_take_idle(self._config.pool_name)
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

    def _warm_up(self, run: int) -> None:
        try:
            sandbox = self._maker.warm()
            self._commit(sandbox, run)
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

    def _commit(self, sandbox: SandboxSync, run: int) -> None:
        if not self.is_current(run):
            self._maker.discard(sandbox)
            return
        try:
            self._store.put_idle(self._config.pool_name, sandbox.id)
        except BaseException:
            self._maker.discard(sandbox)
            raise
        sandbox.close()


def take(
    store: PoolStateStore, pool_name: str, min_remaining_ttl: timedelta
) -> TakeIdleResult:
    """Take an idle sandbox that lives for so long, where the store can tell."""
    extended: Any = store
    if min_remaining_ttl and hasattr(store, "try_take_idle_min_ttl"):
        taken: TakeIdleResult = extended.try_take_idle_min_ttl(pool_name, min_remaining_ttl)
        return taken
    return TakeIdleResult(store.try_take_idle(pool_name))


def reap(
    store: PoolStateStore, pool_name: str, min_remaining_ttl: timedelta
) -> tuple[str, ...]:
    """Forget idle sandboxes that end soon, and return those that live yet."""
    extended: Any = store
    now = datetime.now(UTC)
    if min_remaining_ttl and hasattr(store, "reap_expired_idle_min_ttl"):
        return tuple(extended.reap_expired_idle_min_ttl(pool_name, now, min_remaining_ttl))
    store.reap_expired_idle(pool_name, now)
    return ()
