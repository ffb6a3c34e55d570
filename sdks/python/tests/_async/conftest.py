# SPDX-License-Identifier: Apache-2.0
"""A sandbox, or a pool's surroundings, to test with."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from opensandbox import Sandbox, SandboxManager
from opensandbox.config import ConnectionConfig
from sdks.python.tests._async.pools import World
from tests.harness.lifecycle import StandIn
from tests.harness.server import API_KEY, Server


@pytest.fixture
async def sandbox(standin: StandIn) -> AsyncIterator[Sandbox]:
    """Hold a sandbox and end it after the test."""
    assert standin.domain  # its address is in the environment
    sandbox = await Sandbox.create("image")
    yield sandbox
    await sandbox.close()


@pytest.fixture
async def world(server: Server) -> AsyncIterator[World]:
    """A pool's surroundings; nothing of it is left after the test."""
    config = ConnectionConfig(domain=server.domain, api_key=API_KEY)
    world = World(f"pool-{uuid4()}", config, await SandboxManager.create(config))
    yield world
    await world.close()
