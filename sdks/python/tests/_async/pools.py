# SPDX-License-Identifier: Apache-2.0
"""A pool's surroundings: a real server, a store, and a look at what lives."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from opensandbox import InMemoryAsyncPoolStateStore, PoolCreationSpec, SandboxPoolAsync
from opensandbox._async.pool_store import AsyncPoolStateStore
from opensandbox._async.sandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.models import SandboxFilter
from opensandbox.pool import PoolDestroyState, PooledSandboxCreateContext
from tests.harness.wait import eventually_async


@dataclass
class World:
    """Everything a test of pools needs; each has a pool name of its own."""

    name: str
    config: ConnectionConfig
    manager: Any
    store: AsyncPoolStateStore = field(default_factory=InMemoryAsyncPoolStateStore)
    pools: list[SandboxPoolAsync] = field(default_factory=list)

    @property
    def spec(self) -> PoolCreationSpec:
        """What the sandboxes of the pool are."""
        return PoolCreationSpec(image="host", metadata={"pool": self.name})

    def pool(self, **options: Any) -> SandboxPoolAsync:
        """Make a pool; it is shut down after the test."""
        settings: dict[str, Any] = {
            "pool_name": self.name,
            "max_idle": 2,
            "state_store": self.store,
            "connection_config": self.config,
            "creation_spec": self.spec,
            **options,
        }
        pool = SandboxPoolAsync(**settings)
        self.pools.append(pool)
        return pool

    async def create(self, context: PooledSandboxCreateContext | None = None) -> Sandbox:
        """Make a sandbox as the pool would."""
        lifetime = context.idle_timeout if context else timedelta(minutes=10)
        return await Sandbox.create(
            "host",
            timeout=lifetime,
            metadata={"pool": self.name},
            connection_config=self.config,
        )

    async def put_idle(self, *, is_dead: bool = False) -> str:
        """Put a sandbox into the store that nobody made for it."""
        sandbox = await self.create()
        if is_dead:
            await sandbox.kill()
        await sandbox.close()
        await self.store.put_idle(self.name, sandbox.id)
        return sandbox.id

    async def occupy(self) -> None:
        """Let somebody else be the one that fills the pool, so that it does nothing by itself."""
        assert await self.store.try_acquire_primary_lock(
            self.name, "somebody else", timedelta(hours=1)
        )

    async def living(self) -> set[str]:
        """Return the sandboxes of this test that the server has."""
        wanted = SandboxFilter(metadata={"pool": self.name}, page_size=200)
        page = await self.manager.list_sandbox_infos(wanted)
        return {info.id for info in page.sandbox_infos}

    async def idle(self) -> list[str]:
        """Return what the store has, oldest first."""
        return [entry.sandbox_id for entry in await self.store.snapshot_idle_entries(self.name)]

    async def until_idle(self, count: int) -> None:
        """Wait until so many are idle, and no other sandbox lives."""
        await self.until_idle_beside(count)

    async def until_idle_beside(self, count: int, *others: str) -> None:
        """Wait until so many are idle, and no other sandbox lives but these."""

        async def is_so() -> bool:
            idle = await self.idle()
            return len(idle) == count and {*idle, *others} == await self.living()

        await eventually_async(is_so)

    async def until_active(self) -> None:
        """Wait until the name of the pool is free."""

        async def is_so() -> bool:
            return await self.store.get_destroy_state(self.name) is PoolDestroyState.ACTIVE

        await eventually_async(is_so)

    async def until_gone(self, *sandbox_ids: str) -> None:
        """Wait until the server has none of these."""

        async def is_so() -> bool:
            return not set(sandbox_ids) & await self.living()

        await eventually_async(is_so)

    async def close(self) -> None:
        """Shut the pools down; afterwards nothing but idle and acquired sandboxes may live."""
        for pool in self.pools:
            await pool.shutdown()
        for sandbox_id in await self.living():
            await self.manager.kill_sandbox(sandbox_id)
        await self.manager.close()
