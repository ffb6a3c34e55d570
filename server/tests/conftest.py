# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the server's tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from server.tests.world import World, open_world
from tests.harness.postgres import PostgresServer, postgres_server


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio."""
    return "asyncio"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Run a server of its own for one test."""
    async with open_world(tmp_path / "data") as running:
        yield running


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """Run one PostgreSQL for all tests of a worker; it takes half a second."""
    with postgres_server(tmp_path_factory.mktemp("postgres")) as running:
        yield running
