# SPDX-License-Identifier: Apache-2.0
"""Keeps sandboxes ready, so that whoever wants one need not wait for it to be made."""

import logging
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import (
    InvalidArgumentException,
    PoolAcquireFailedException,
    PoolDestroyedException,
    PoolEmptyException,
    PoolNotRunningException,
    PoolStateStoreUnavailableException,
)
from opensandbox.pool_types import (
    AcquirePolicy,
    IdleEntry,
    PoolCreationSpec,
    PoolDestroyState,
    PoolLifecycleState,
    PoolSnapshot,
    PoolState,
    require_not_negative,
    require_positive,
)

from .manager import SandboxManager
from .pool_config import AsyncPoolConfig, AsyncPooledSandboxCreator
from .pool_keeper import Keeper, take
from .pool_maker import Maker, is_refused
from .pool_store import AsyncPoolStateStore
from .sandbox import Sandbox
from .worker import Workers, run_all, unbroken

logger = logging.getLogger("opensandbox")


class SandboxPoolAsync:
    """Idle sandboxes, made ahead of those who will want them.

    Pools of one name that share a store share their idle sandboxes; one of them fills it. Shutting
    a pool down leaves what is idle to the others: ``release_all_idle`` kills it.
    """

    def __init__(
        self,
        *,
        pool_name: str,
        max_idle: int,
        state_store: AsyncPoolStateStore,
        connection_config: ConnectionConfig,
        creation_spec: PoolCreationSpec,
        owner_id: str | None = None,
        warmup_create_qps: int = 10,
        warmup_concurrency: int = 128,
        primary_lock_ttl: timedelta = timedelta(seconds=60),
        degraded_threshold: int = 3,
        acquire_ready_timeout: timedelta = timedelta(seconds=30),
        acquire_health_check_polling_interval: timedelta = timedelta(milliseconds=200),
        acquire_health_check: Callable[[Sandbox], Awaitable[bool]] | None = None,
        acquire_skip_health_check: bool = False,
        warmup_ready_timeout: timedelta = timedelta(seconds=30),
        warmup_health_check_initial_delay: timedelta = timedelta(0),
        warmup_health_check_polling_interval: timedelta = timedelta(milliseconds=500),
        warmup_health_check: Callable[[Sandbox], Awaitable[bool]] | None = None,
        warmup_sandbox_preparer: Callable[[Sandbox], Awaitable[None]] | None = None,
        warmup_post_prepare_health_check: Callable[[Sandbox], Awaitable[bool]] | None = None,
        warmup_post_prepare_health_check_timeout: timedelta = timedelta(seconds=30),
        warmup_skip_health_check: bool = False,
        idle_timeout: timedelta = timedelta(hours=24),
        drain_timeout: timedelta = timedelta(seconds=30),
        acquire_min_remaining_ttl: timedelta | None = None,
        max_acquire_retries: int = 3,
        sandbox_manager_factory: Callable[..., Awaitable[SandboxManager]] = SandboxManager.create,
        sandbox_factory: Any = Sandbox,
        sandbox_creator: AsyncPooledSandboxCreator | None = None,
    ) -> None:
        """Describe a pool; ``start`` starts it. ``AsyncPoolConfig`` says what each one means."""
        self._config = AsyncPoolConfig(
            pool_name=pool_name,
            max_idle=max_idle,
            state_store=state_store,
            connection_config=connection_config,
            creation_spec=creation_spec,
            owner_id=owner_id,
            warmup_create_qps=warmup_create_qps,
            warmup_concurrency=warmup_concurrency,
            primary_lock_ttl=primary_lock_ttl,
            degraded_threshold=degraded_threshold,
            acquire_ready_timeout=acquire_ready_timeout,
            acquire_health_check_polling_interval=acquire_health_check_polling_interval,
            acquire_health_check=acquire_health_check,
            acquire_skip_health_check=acquire_skip_health_check,
            warmup_ready_timeout=warmup_ready_timeout,
            warmup_health_check_initial_delay=warmup_health_check_initial_delay,
            warmup_health_check_polling_interval=warmup_health_check_polling_interval,
            warmup_health_check=warmup_health_check,
            warmup_sandbox_preparer=warmup_sandbox_preparer,
            warmup_post_prepare_health_check=warmup_post_prepare_health_check,
            warmup_post_prepare_health_check_timeout=warmup_post_prepare_health_check_timeout,
            warmup_skip_health_check=warmup_skip_health_check,
            idle_timeout=idle_timeout,
            drain_timeout=drain_timeout,
            acquire_min_remaining_ttl=acquire_min_remaining_ttl,
            sandbox_creator=sandbox_creator,
            max_acquire_retries=max_acquire_retries,
        )
        self._maker = Maker(self._config, sandbox_factory, sandbox_manager_factory)
        self._store = state_store
        self._workers = Workers(f"pool {pool_name}")
        self._keeper = Keeper(self._config, self._maker, self._workers)
        self._lock = threading.Lock()  # never held while anything is waited for
        self._lifecycle = PoolLifecycleState.NOT_STARTED
        self._in_flight = 0

    async def start(self) -> None:
        """Begin to fill the pool and let sandboxes be acquired. Repeating changes nothing."""
        with self._lock:
            if self._lifecycle in (PoolLifecycleState.STARTING, PoolLifecycleState.RUNNING):
                return
            if self._lifecycle is PoolLifecycleState.DRAINING:
                raise PoolNotRunningException("the pool is shutting down; start it after that")
            self._lifecycle = PoolLifecycleState.STARTING
        name = self._config.pool_name
        try:
            await self._require_active()
            await self._store.set_idle_entry_ttl(name, self._config.idle_timeout)
            await self._store.set_max_idle(name, self._config.max_idle)
        except BaseException:
            self._lifecycle = PoolLifecycleState.STOPPED
            raise
        self._lifecycle = PoolLifecycleState.RUNNING
        self._keeper.start()

    async def acquire(
        self,
        sandbox_timeout: timedelta | None = None,
        policy: AcquirePolicy = AcquirePolicy.DIRECT_CREATE,
    ) -> Sandbox:
        """Return a sandbox that answers; it is the caller's from now on, to destroy it too.

        It lives for ``sandbox_timeout`` from now; None leaves it what is left of ``idle_timeout``.
        """
        if sandbox_timeout is not None and sandbox_timeout <= timedelta(0):
            raise InvalidArgumentException("sandbox_timeout must be positive")
        if self._lifecycle is not PoolLifecycleState.RUNNING:
            await self._require_active()
            state = self._lifecycle.value
            raise PoolNotRunningException(f"the pool is {state}: start it before acquiring")
        return await unbroken(
            self._workers, lambda: self._acquire(sandbox_timeout, policy), self._maker.discard
        )

    async def resize(self, max_idle: int) -> None:
        """Say how many shall be idle, to every pool of this name; it takes effect soon after."""
        require_not_negative("max_idle", max_idle)
        await self._store.set_max_idle(self._config.pool_name, max_idle)
        self._keeper.wake()

    async def release_all_idle(self) -> int:
        """Kill what is idle, one after the other, and return how many there were.

        A running pool fills up again; ``resize(0)`` first keeps it empty.
        """
        count = 0
        while (sandbox_id := await self._store.try_take_idle(self._config.pool_name)) is not None:
            await self._maker.kill(sandbox_id)
            count += 1
        return count

    async def release_all_idle_parallel(self, max_workers: int = 50) -> int:
        """Kill what is idle, several at a time, and return how many there were."""
        require_positive("max_workers", max_workers)
        counts: list[int] = []

        async def work() -> None:
            counts.append(await self.release_all_idle())

        await run_all([work] * max_workers)
        return sum(counts)

    async def snapshot(self) -> PoolSnapshot:
        """Return the pool as it is now."""
        counters = await self._store.snapshot_counters(self._config.pool_name)
        pace = self._keeper.pace
        return PoolSnapshot(
            state=self._state(),
            lifecycle_state=self._lifecycle,
            idle_count=counters.idle_count,
            max_idle=await self._keeper.max_idle(),
            failure_count=pace.failure_count,
            backoff_active=pace.is_backing_off(time.monotonic()),
            last_error=pace.last_error,
            in_flight_operations=self._in_flight,
        )

    async def snapshot_idle_entries(self) -> list[IdleEntry]:
        """Return what is idle, oldest first."""
        return await self._store.snapshot_idle_entries(self._config.pool_name)

    async def shutdown(self, graceful: bool = True) -> None:
        """Fill the pool no more and let nobody acquire; what is idle stays for other pools.

        Gracefully means: wait, at most for ``drain_timeout``, for those who are acquiring and for
        what is being made, which is killed then. Otherwise that happens without anybody waiting.
        """
        with self._lock:
            if self._lifecycle in (PoolLifecycleState.NOT_STARTED, PoolLifecycleState.STOPPED):
                self._lifecycle = PoolLifecycleState.STOPPED
                return
            self._lifecycle = PoolLifecycleState.DRAINING
        try:
            await self._keeper.stop()
            seconds = self._config.drain_timeout.total_seconds()
            if graceful and not await self._workers.wait(seconds):
                logger.warning("pool %s: still busy after %s s", self._config.pool_name, seconds)
        finally:
            self._lifecycle = PoolLifecycleState.STOPPED

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.shutdown()

    async def _acquire(self, timeout: timedelta | None, policy: AcquirePolicy) -> Sandbox:
        self._count(1)
        try:
            sandbox = await self._take_idle(timeout, policy)
            return sandbox if sandbox is not None else await self._maker.make(timeout)
        finally:
            self._count(-1)
            self._keeper.wake()

    async def _take_idle(self, timeout: timedelta | None, policy: AcquirePolicy) -> Sandbox | None:
        """Return an idle sandbox that answers, or None when one may be made instead."""
        failure: Exception | None = None
        for _ in range(policy.attempts(self._config.max_acquire_retries)):
            sandbox_id = await self._next_idle(policy)
            if sandbox_id is None:
                break
            try:
                sandbox = await self._maker.hold(sandbox_id)
            except BaseException as error:
                self._keeper.dispose(sandbox_id)
                if not isinstance(error, Exception) or is_refused(error):
                    raise
                failure = error
            else:
                await self._maker.renew(sandbox, timeout)
                return sandbox
        if policy.may_create:
            return None
        if failure is not None:
            message = f"no idle sandbox answered, and {policy.value} makes none: {failure}"
            raise PoolAcquireFailedException(message, failure) from failure
        raise PoolEmptyException(f"no sandbox is idle, and {policy.value} makes none; try later")

    async def _next_idle(self, policy: AcquirePolicy) -> str | None:
        try:
            await self._require_active()
            name = self._config.pool_name
            taken = await take(self._store, name, self._config.min_remaining_ttl)
        except PoolStateStoreUnavailableException:
            if not policy.may_create:
                raise
            logger.warning("pool: its store is away, so a sandbox is made", exc_info=True)
            return None
        for ending in taken.discarded_alive_sandbox_ids:
            self._keeper.dispose(ending)
        return taken.sandbox_id

    async def _require_active(self) -> None:
        name = self._config.pool_name
        state = await self._store.get_destroy_state(name)
        if state is not PoolDestroyState.ACTIVE:
            message = f"pool {name} is {state.value.lower()}; use another name"
            raise PoolDestroyedException(message)

    def _state(self) -> PoolState:
        if self._lifecycle is PoolLifecycleState.DRAINING:
            return PoolState.DRAINING
        if self._lifecycle in (PoolLifecycleState.NOT_STARTED, PoolLifecycleState.STOPPED):
            return PoolState.STOPPED
        return PoolState.DEGRADED if self._keeper.pace.is_degraded else PoolState.HEALTHY

    def _count(self, change: int) -> None:
        with self._lock:
            self._in_flight += change
