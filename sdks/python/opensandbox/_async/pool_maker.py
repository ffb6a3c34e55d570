# SPDX-License-Identifier: Apache-2.0
"""Makes, prepares, holds and kills the sandboxes of a pool."""

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from opensandbox.exceptions import SandboxApiException, SandboxException
from opensandbox.pool_types import PooledSandboxCreateContext, PooledSandboxCreateReason

from .manager import SandboxManager
from .pool_config import AsyncPoolConfig
from .readiness import Deadline, wait_until_healthy
from .sandbox import Sandbox
from .waiting import sleep

logger = logging.getLogger("opensandbox")


class Maker:
    """Does for a pool what needs the server."""

    def __init__(
        self,
        config: AsyncPoolConfig,
        sandbox_factory: Any,
        manager_factory: Callable[..., Awaitable[SandboxManager]],
    ) -> None:
        """Make what the configuration says; the factories are for those who make otherwise."""
        self._config = config
        self._sandboxes = sandbox_factory
        self._new_manager = manager_factory

    async def warm(self) -> Sandbox:
        """Make a sandbox that is to be idle, and prepare it."""
        sandbox = await self._make(PooledSandboxCreateReason.WARMUP, self._config.idle_timeout)
        try:
            await self._prepare(sandbox)
        except BaseException:
            await self.discard(sandbox)
            raise
        return sandbox

    async def make(self, timeout: timedelta | None) -> Sandbox:
        """Make a sandbox for somebody who waits for it."""
        lifetime = timeout or self._config.idle_timeout
        sandbox = await self._make(PooledSandboxCreateReason.DIRECT_CREATE, lifetime)
        if self._config.sandbox_creator is not None:
            await self.renew(sandbox, timeout)
        return sandbox

    async def hold(self, sandbox_id: str) -> Sandbox:
        """Hold an idle sandbox; raises when it does not answer."""
        config = self._config
        held: Sandbox = await self._sandboxes.connect(
            sandbox_id,
            connection_config=config.connection_config,
            health_check=config.acquire_health_check,
            connect_timeout=config.acquire_ready_timeout,
            health_check_polling_interval=config.acquire_health_check_polling_interval,
            skip_health_check=config.acquire_skip_health_check,
        )
        return held

    async def renew(self, sandbox: Sandbox, timeout: timedelta | None) -> None:
        """Let a sandbox live for so long from now; it is discarded when that fails."""
        if timeout is None:
            return
        try:
            await sandbox.renew(timeout)
        except BaseException:
            await self.discard(sandbox)
            raise

    async def discard(self, sandbox: Sandbox) -> None:
        """Kill a sandbox that nobody gets. A failure is logged: the sandbox ends by itself."""
        try:
            await sandbox.destroy()
        except SandboxException:
            logger.warning("pool: sandbox %s could not be killed", sandbox.id, exc_info=True)

    async def kill(self, sandbox_id: str) -> bool:
        """Kill a sandbox by its id; whether it is gone now."""
        async with await self._new_manager(self._config.connection_config) as manager:
            return await kill_quietly(manager, sandbox_id)

    async def _make(self, reason: PooledSandboxCreateReason, timeout: timedelta) -> Sandbox:
        context = self._context(reason)
        if self._config.sandbox_creator is not None:
            return await self._config.sandbox_creator(context)
        delay = self._config.warmup_health_check_initial_delay
        is_delayed = reason is PooledSandboxCreateReason.WARMUP and delay > timedelta(0)
        spec = self._config.creation_spec
        made: Sandbox = await self._sandboxes.create(
            spec.image,
            timeout=timeout,
            ready_timeout=context.ready_timeout,
            env=spec.env,
            metadata=spec.metadata,
            resource=spec.resource,
            platform=spec.platform,
            network_policy=spec.network_policy,
            extensions=spec.extensions,
            secure_access=spec.secure_access,
            entrypoint=spec.entrypoint,
            volumes=spec.volumes,
            connection_config=self._config.connection_config,
            health_check=context.health_check,
            health_check_polling_interval=context.health_check_polling_interval,
            skip_health_check=context.skip_health_check or is_delayed,
        )
        if is_delayed and not context.skip_health_check:
            await self._check_later(made, delay, context)
        return made

    async def _check_later(
        self, sandbox: Sandbox, delay: timedelta, context: PooledSandboxCreateContext
    ) -> None:
        try:
            await sleep(delay.total_seconds())
            await sandbox.check_ready(context.ready_timeout, context.health_check_polling_interval)
        except BaseException:
            await self.discard(sandbox)
            raise

    async def _prepare(self, sandbox: Sandbox) -> None:
        config = self._config
        if config.warmup_sandbox_preparer is not None:
            await config.warmup_sandbox_preparer(sandbox)
        if config.warmup_post_prepare_health_check is not None:
            check = config.warmup_post_prepare_health_check

            async def is_well(_: float) -> bool:
                return await check(sandbox)

            timeout = config.warmup_post_prepare_health_check_timeout
            interval = config.warmup_health_check_polling_interval
            await wait_until_healthy(Deadline(sandbox.id, timeout, interval), is_well)
        if config.warmup_sandbox_preparer is not None:
            # Preparing took some of its life, and the store counts from now on.
            await sandbox.renew(config.idle_timeout)

    def _context(self, reason: PooledSandboxCreateReason) -> PooledSandboxCreateContext:
        config = self._config
        is_warmup = reason is PooledSandboxCreateReason.WARMUP
        return PooledSandboxCreateContext(
            pool_name=config.pool_name,
            owner_id=config.owner,
            idle_timeout=config.idle_timeout,
            reason=reason,
            ready_timeout=config.warmup_ready_timeout
            if is_warmup
            else config.acquire_ready_timeout,
            health_check_polling_interval=config.warmup_health_check_polling_interval
            if is_warmup
            else config.acquire_health_check_polling_interval,
            skip_health_check=config.warmup_skip_health_check
            if is_warmup
            else config.acquire_skip_health_check,
            health_check=config.warmup_health_check if is_warmup else config.acquire_health_check,
            connection_config=config.connection_config,
        )


async def kill_quietly(manager: SandboxManager, sandbox_id: str) -> bool:
    """Kill a sandbox; whether it is gone now. A failure is logged: the sandbox ends by itself."""
    try:
        await manager.kill_sandbox(sandbox_id)
    except SandboxApiException as error:
        if error.status_code == 404:
            return True
        logger.warning("pool: sandbox %s could not be killed", sandbox_id, exc_info=True)
    except SandboxException:
        logger.warning("pool: sandbox %s could not be killed", sandbox_id, exc_info=True)
    else:
        return True
    return False


def is_refused(error: Exception) -> bool:
    """Whether the credentials are refused: no other sandbox will do better."""
    return isinstance(error, SandboxApiException) and error.status_code in (401, 403)
