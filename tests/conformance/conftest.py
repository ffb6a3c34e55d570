# SPDX-License-Identifier: Apache-2.0
"""The runtimes of this repository, each with a server of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.harness.server import API_KEY, serving

RUNTIMES = {"fake": "any", "oci": "host"}
"""Runtimes of this repository, each with an image that has a shell and Python."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test on every runtime."""
    if "server" in metafunc.fixturenames:
        metafunc.parametrize("server", list(RUNTIMES), indirect=True, scope="session")


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, str]]:
    """Have a server: its URL, a key and an image."""
    name: str = request.param
    _skip_unless_it_works_here(name)
    data_dir = tmp_path_factory.mktemp(name) / "data"
    with serving(data_dir, "--runtime", name, "--stop-sandboxes") as running:
        yield running.url, API_KEY, RUNTIMES[name]


def _skip_unless_it_works_here(name: str) -> None:
    words = [sys.executable, "-m", "opensandbox_server", "--runtime", name, "doctor"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and name != "fake":
        missing = [line for line in done.stdout.splitlines() if line.startswith("missing")]
        pytest.skip(f"the {name} runtime does not work here: {'; '.join(missing) or done.stderr}")
