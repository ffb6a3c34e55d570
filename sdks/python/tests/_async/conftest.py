# SPDX-License-Identifier: Apache-2.0
"""A sandbox to test with."""

from collections.abc import AsyncIterator

import pytest

from opensandbox import Sandbox
from sdks.python.tests.standin import StandIn


@pytest.fixture
async def sandbox(standin: StandIn) -> AsyncIterator[Sandbox]:
    """Hold a sandbox and end it after the test."""
    assert standin.domain  # its address is in the environment
    sandbox = await Sandbox.create("image")
    yield sandbox
    await sandbox.close()
