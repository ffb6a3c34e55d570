# SPDX-License-Identifier: Apache-2.0
# Made from _async/pool_maker.py by scripts/unasync.py; change it there.
"""Makes, prepares, holds and kills the sandboxes of a pool."""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from opensandbox.exceptions import SandboxApiException, SandboxException
from opensandbox.pool_types import PooledSandboxCreateContext, PooledSandboxCreateReason

from .manager import SandboxManagerSync
from .pool_config import PoolConfig
from .readiness import Deadline, wait_until_healthy
from .sandbox import SandboxSync
from .waiting import sleep

logger = logging.getLogger("opensandbox")


class Maker:
    """Does for a pool what needs the server."""

    def __init__(
        self,
        config: PoolConfig,
        sandbox_factory: Any,
        manager_factory: Callable[..., SandboxManagerSync],
    ) -> None:
        """Make what the configuration says; the factories are for those who make otherwise."""
        self._config = config
        self._sandboxes = sandbox_factory
        self._new_manager = manager_factory

    def warm(self) -> SandboxSync:
        """Make a sandbox that is to be idle, and prepare it."""
        sandbox = self._make(PooledSandboxCreateReason.WARMUP, self._config.idle_timeout)
        try:
            self._prepare(sandbox)
        except BaseException:
            self.discard(sandbox)
            raise
        return sandbox

    def make(self, timeout: timedelta | None) -> SandboxSync:
        """Make a sandbox for somebody who waits for it."""
        lifetime = timeout or self._config.idle_timeout
        sandbox = self._make(PooledSandboxCreateReason.DIRECT_CREATE, lifetime)
        if self._config.sandbox_creator is not None:
            self.renew(sandbox, timeout)
        return sandbox

    def hold(self, sandbox_id: str) -> SandboxSync:
        """Hold an idle sandbox; raises when it does not answer."""
        config = self._config
        held: SandboxSync = self._sandboxes.connect(
            sandbox_id,
            connection_config=config.connection_config,
            health_check=config.acquire_health_check,
            connect_timeout=config.acquire_ready_timeout,
            health_check_polling_interval=config.acquire_health_check_polling_interval,
            skip_health_check=config.acquire_skip_health_check,
        )
        return held

    def renew(self, sandbox: SandboxSync, timeout: timedelta | None) -> None:
        """Let a sandbox live for so long from now; it is discarded when that fails."""
        if timeout is None:
            return
        try:
            sandbox.renew(timeout)
        except BaseException:
            self.discard(sandbox)
            raise

    def discard(self, sandbox: SandboxSync) -> None:
        """Kill a sandbox that nobody gets. A failure is logged: the sandbox ends by itself."""
        try:
            sandbox.destroy()
        except SandboxException:
            logger.warning("pool: sandbox %s could not be killed", sandbox.id, exc_info=True)

    def kill(self, sandbox_id: str) -> bool:
        """Kill a sandbox by its id; whether it is gone now."""
        with self._new_manager(self._config.connection_config) as manager:
            return kill_quietly(manager, sandbox_id)

    def _make(self, reason: PooledSandboxCreateReason, timeout: timedelta) -> SandboxSync:
        context = self._context(reason)
        if self._config.sandbox_creator is not None:
            return self._config.sandbox_creator(context)
        delay = self._config.warmup_health_check_initial_delay
        is_delayed = reason is PooledSandboxCreateReason.WARMUP and delay > timedelta(0)
        spec = self._config.creation_spec
        made: SandboxSync = self._sandboxes.create(
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
            self._check_later(made, delay, context)
        return made

    def _check_later(
        self, sandbox: SandboxSync, delay: timedelta, context: PooledSandboxCreateContext
    ) -> None:
        try:
            sleep(delay.total_seconds())
            sandbox.check_ready(context.ready_timeout, context.health_check_polling_interval)
        except BaseException:
            self.discard(sandbox)
            raise

    def _prepare(self, sandbox: SandboxSync) -> None:
        config = self._config
        if config.warmup_sandbox_preparer is not None:
            config.warmup_sandbox_preparer(sandbox)
        if config.warmup_post_prepare_health_check is not None:
            check = config.warmup_post_prepare_health_check

            def is_well(_: float) -> bool:
                return check(sandbox)

            timeout = config.warmup_post_prepare_health_check_timeout
            interval = config.warmup_health_check_polling_interval
            wait_until_healthy(Deadline(sandbox.id, timeout, interval), is_well)
        if config.warmup_sandbox_preparer is not None:
            # Preparing took some of its life, and the store counts from now on.
            sandbox.renew(config.idle_timeout)

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


def kill_quietly(manager: SandboxManagerSync, sandbox_id: str) -> bool:
    """Kill a sandbox; whether it is gone now. A failure is logged: the sandbox ends by itself."""
    try:
        manager.kill_sandbox(sandbox_id)
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
