# SPDX-License-Identifier: Apache-2.0
"""The real embedded runtime, in a network of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.runtime import Home, missing, opened_home, own_network


@pytest.fixture
def network() -> Iterator[int]:
    """A network namespace for this test."""
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")
    with own_network() as netns:
        yield netns


@pytest.fixture
def home(network: int, tmp_path: Path) -> Iterator[Home]:
    """A runtime for this test."""
    assert network >= 0
    with opened_home(tmp_path / "home") as opened:
        yield opened
