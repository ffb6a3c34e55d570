# SPDX-License-Identifier: Apache-2.0
# Made from _async/pools.py by scripts/unasync.py; change it there.
"""A pool's surroundings: a real server, a store, and a look at what lives."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from opensandbox import InMemoryPoolStateStore, PoolCreationSpec, SandboxPoolSync
from opensandbox._sync.pool_store import PoolStateStore
from opensandbox._sync.sandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.models import SandboxFilter
from opensandbox.pool import PoolDestroyState, PooledSandboxCreateContext
from tests.harness.wait import eventually


@dataclass
class World:
    """Everything a test of pools needs; each has a pool name of its own."""

    name: str
    config: ConnectionConfigSync
    manager: Any
    store: PoolStateStore = field(default_factory=InMemoryPoolStateStore)
    pools: list[SandboxPoolSync] = field(default_factory=list)

    @property
    def spec(self) -> PoolCreationSpec:
        """What the sandboxes of the pool are."""
        return PoolCreationSpec(image="host", metadata={"pool": self.name})

    def pool(self, **options: Any) -> SandboxPoolSync:
        """Make a pool; it is shut down after the test."""
        settings: dict[str, Any] = {
            "pool_name": self.name,
            "max_idle": 2,
            "state_store": self.store,
            "connection_config": self.config,
            "creation_spec": self.spec,
            **options,
        }
        pool = SandboxPoolSync(**settings)
        self.pools.append(pool)
        return pool

    def create(self, context: PooledSandboxCreateContext | None = None) -> SandboxSync:
        """Make a sandbox as the pool would."""
        lifetime = context.idle_timeout if context else timedelta(minutes=10)
        return SandboxSync.create(
            "host",
            timeout=lifetime,
            metadata={"pool": self.name},
            connection_config=self.config,
        )

    def put_idle(self, *, is_dead: bool = False) -> str:
        """Put a sandbox into the store that nobody made for it."""
        sandbox = self.create()
        if is_dead:
            sandbox.kill()
        sandbox.close()
        self.store.put_idle(self.name, sandbox.id)
        return sandbox.id

    def occupy(self) -> None:
        """Let somebody else be the one that fills the pool, so that it does nothing by itself."""
        assert self.store.try_acquire_primary_lock(
            self.name, "somebody else", timedelta(hours=1)
        )

    def living(self) -> set[str]:
        """Return the sandboxes of this test that the server has."""
        wanted = SandboxFilter(metadata={"pool": self.name}, page_size=200)
        page = self.manager.list_sandbox_infos(wanted)
        return {info.id for info in page.sandbox_infos}

    def idle(self) -> list[str]:
        """Return what the store has, oldest first."""
        return [entry.sandbox_id for entry in self.store.snapshot_idle_entries(self.name)]

    def until_idle(self, count: int) -> None:
        """Wait until so many are idle, and no other sandbox lives."""
        self.until_idle_beside(count)

    def until_idle_beside(self, count: int, *others: str) -> None:
        """Wait until so many are idle, and no other sandbox lives but these."""

        def is_so() -> bool:
            idle = self.idle()
            return len(idle) == count and {*idle, *others} == self.living()

        eventually(is_so)

    def until_active(self) -> None:
        """Wait until the name of the pool is free."""

        def is_so() -> bool:
            return self.store.get_destroy_state(self.name) is PoolDestroyState.ACTIVE

        eventually(is_so)

    def until_gone(self, *sandbox_ids: str) -> None:
        """Wait until the server has none of these."""

        def is_so() -> bool:
            return not set(sandbox_ids) & self.living()

        eventually(is_so)

    def close(self) -> None:
        """Shut the pools down; afterwards nothing but idle and acquired sandboxes may live."""
        for pool in self.pools:
            pool.shutdown()
        for sandbox_id in self.living():
            self.manager.kill_sandbox(sandbox_id)
        self.manager.close()
