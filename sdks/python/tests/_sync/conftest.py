# SPDX-License-Identifier: Apache-2.0
# Made from _async/conftest.py by scripts/unasync.py; change it there.
"""A sandbox to test with."""

from collections.abc import Iterator

import pytest

from opensandbox import SandboxSync
from sdks.python.tests.standin import StandIn


@pytest.fixture
def sandbox(standin: StandIn) -> Iterator[SandboxSync]:
    """Hold a sandbox and end it after the test."""
    assert standin.domain  # its address is in the environment
    sandbox = SandboxSync.create("image")
    yield sandbox
    sandbox.close()
