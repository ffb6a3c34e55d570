# SPDX-License-Identifier: Apache-2.0
"""A daemon whose image has interpreters, shared by the tests of one module."""

from collections.abc import Iterator

import pytest

from tests.code.cells import Context, first_context, forked_context
from tests.code.interpreters import surroundings
from tests.harness.execd import OWN, Daemon, run_daemon


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """Run one daemon for the module, as whoever runs the tests."""
    with run_daemon(OWN, environment=surroundings()) as running:
        yield running


@pytest.fixture(params=["first", "forked"])
def python(request: pytest.FixtureRequest, daemon: Daemon) -> Iterator[Context]:
    """Make a Python context for one test, in each of the two ways that there are."""
    making = first_context() if request.param == "first" else forked_context(daemon)
    with making as context:
        yield context
