# SPDX-License-Identifier: Apache-2.0
"""A daemon whose image has interpreters, shared by the tests of one module."""

from collections.abc import Iterator

import pytest

from tests.code.cells import KIND, Context, made
from tests.code.interpreters import surroundings
from tests.daemon import Daemon, run_daemon


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """Run one daemon for the module, as whoever runs the tests."""
    with run_daemon(KIND, environment=surroundings()) as running:
        yield running


@pytest.fixture
def python(daemon: Daemon) -> Iterator[Context]:
    """Make a Python context for one test."""
    context = made(daemon.client, "python")
    yield context
    daemon.client.delete(f"/code/contexts/{context.id}")
