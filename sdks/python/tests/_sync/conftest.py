# SPDX-License-Identifier: Apache-2.0
# Made from _async/conftest.py by scripts/unasync.py; change it there.
"""A sandbox, or a pool's surroundings, to test with."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from opensandbox import SandboxSync, SandboxManagerSync
from opensandbox.config import ConnectionConfigSync
from sdks.python.tests._sync.pools import World
from tests.harness.lifecycle import StandIn
from tests.harness.server import API_KEY, Server


@pytest.fixture
def sandbox(standin: StandIn) -> Iterator[SandboxSync]:
    """Hold a sandbox and end it after the test."""
    assert standin.domain  # its address is in the environment
    sandbox = SandboxSync.create("image")
    yield sandbox
    sandbox.close()


@pytest.fixture
def world(server: Server) -> Iterator[World]:
    """A pool's surroundings; nothing of it is left after the test."""
    config = ConnectionConfigSync(domain=server.domain, api_key=API_KEY)
    world = World(f"pool-{uuid4()}", config, SandboxManagerSync.create(config))
    yield world
    world.close()
