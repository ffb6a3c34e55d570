# SPDX-License-Identifier: Apache-2.0
"""Client-side pools on every runtime."""

from datetime import timedelta

import pytest

from opensandbox import (
    AcquirePolicy,
    InMemoryPoolStateStore,
    PoolCreationSpec,
    SandboxManagerSync,
    SandboxPool,
    SandboxPoolManager,
    SandboxSync,
)
from opensandbox.exceptions import PoolDestroyedException
from opensandbox.models import SandboxFilter
from tests.harness.server import Server
from tests.harness.wait import eventually


@pytest.fixture
def store() -> InMemoryPoolStateStore:
    """What the pool and its manager share."""
    return InMemoryPoolStateStore()


def test_a_pool_gives_prepared_sandboxes_and_leaves_nothing(
    server: Server, store: InMemoryPoolStateStore
) -> None:
    def prepare(sandbox: SandboxSync) -> None:
        sandbox.patch_metadata({"prepared": "yes"})
        assert sandbox.commands.run("true").exit_code == 0

    pool = SandboxPool(
        pool_name="agents",
        max_idle=2,
        state_store=store,
        connection_config=server.sync_config,
        creation_spec=PoolCreationSpec(image="host", resource={"cpu": "1", "memory": "256Mi"}),
        warmup_sandbox_preparer=prepare,
    )
    pool.start()
    eventually(lambda: pool.snapshot().idle_count == 2)
    with SandboxManagerSync.create(server.sync_config) as manager:
        manager.kill_sandbox(pool.snapshot_idle_entries()[0].sandbox_id)
    sandbox = pool.acquire(timedelta(minutes=5), AcquirePolicy.RETRY_NEXT_IDLE)
    assert (sandbox.get_info().metadata or {})["prepared"] == "yes"
    assert sandbox.commands.run("echo ready").text == "ready"
    sandbox.destroy()
    eventually(lambda: pool.snapshot().idle_count == 2)
    pool.shutdown()

    pools = SandboxPoolManager(state_store=store, connection_config=server.sync_config)
    assert pools.destroy("agents").killed_idle_count == 2
    with pytest.raises(PoolDestroyedException):
        pool.start()
    with SandboxManagerSync.create(server.sync_config) as manager:
        assert manager.list_sandbox_infos(SandboxFilter()).sandbox_infos == []
