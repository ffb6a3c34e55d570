# SPDX-License-Identifier: Apache-2.0
"""Real servers, and osb pointed at them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.tests.program import Osb, osb_for
from tests.harness.server import Server, shared_server


@pytest.fixture(scope="module")
def fake_server() -> Iterator[Server]:
    """A server whose sandboxes are quick and isolate nothing."""
    with shared_server("fake") as started:
        yield started


@pytest.fixture(scope="module")
def real_server() -> Iterator[Server]:
    """A server with the embedded runtime."""
    with shared_server("oci") as started:
        yield started


@pytest.fixture
def osb(fake_server: Server, tmp_path: Path) -> Osb:
    """The program against the quick server."""
    return osb_for(fake_server, tmp_path)


@pytest.fixture
def real_osb(real_server: Server, tmp_path: Path) -> Osb:
    """The program against the embedded runtime."""
    return osb_for(real_server, tmp_path)


@pytest.fixture
def lonely_osb(tmp_path: Path) -> Osb:
    """The program without a server."""
    return Osb(tmp_path)
