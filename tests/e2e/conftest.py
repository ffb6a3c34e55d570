# SPDX-License-Identifier: Apache-2.0
"""The real server on each runtime that works here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.server import RUNTIMES, RuntimeName, Server, make_home, obstacle, shared_server


@pytest.fixture(scope="module", params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> RuntimeName:
    """Which runtime makes the sandboxes."""
    chosen: RuntimeName = request.param
    if reason := obstacle(chosen):
        pytest.skip(reason)
    return chosen


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty directory for a server of this test alone."""
    with make_home() as made:
        yield made


@pytest.fixture(scope="module")
def server(runtime: RuntimeName) -> Iterator[Server]:
    """A server for all tests of a module; they leave no sandbox."""
    with shared_server(runtime) as started:
        yield started
