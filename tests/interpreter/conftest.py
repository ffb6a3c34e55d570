# SPDX-License-Identifier: Apache-2.0
"""Where code runs: in sandboxes of the real server, and in a daemon that has every language."""

from collections.abc import Iterator

import pytest

from tests.code.interpreters import surroundings
from tests.harness.execd import OWN, run_daemon
from tests.harness.lifecycle import run_standin
from tests.harness.server import Server, shared_server


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the loop the client is made for."""
    return "asyncio"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server with the embedded runtime, whose image host has Python and bash."""
    with shared_server("oci") as started:
        yield started


@pytest.fixture(scope="session")
def polyglot() -> Iterator[str]:
    """The address of a lifecycle stand-in whose one sandbox has six languages and libraries."""
    with (
        run_daemon(OWN, environment=surroundings()) as daemon,
        run_standin(api_key="", execd={"endpoint": daemon.address}) as standin,
    ):
        yield standin.domain
