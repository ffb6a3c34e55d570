# SPDX-License-Identifier: Apache-2.0
"""One runtime for all security tests, in a network of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.runtime import Home, missing, opened_home, own_network
from tests.security.internet import made_outside


@pytest.fixture(scope="module")
def network() -> Iterator[int]:
    """A network namespace for the runtime and everything around it."""
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")
    with own_network() as netns:
        yield netns


@pytest.fixture(scope="module")
def home(network: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A runtime; each test starts its own sandboxes."""
    assert network >= 0
    with opened_home(tmp_path_factory.mktemp("home")) as opened:
        yield opened


@pytest.fixture(scope="module")
def outside(network: int) -> Iterator[int]:
    """A network namespace with public, private and metadata addresses, one hop from the runtime."""
    with made_outside(network) as netns:
        yield netns


@pytest.fixture(autouse=True)
def _stop_sandboxes(home: Home) -> Iterator[None]:
    yield
    home.stop_all()
