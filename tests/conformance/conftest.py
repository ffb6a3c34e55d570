# SPDX-License-Identifier: Apache-2.0
"""The server under test: one that runs already, or one of our own for each runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from server.tests.serving import KEY, serving
from tests.conformance.api import Api, Box

URL, API_KEY, IMAGE = (f"OPENSANDBOX_CONFORMANCE_{name}" for name in ("URL", "KEY", "IMAGE"))
RUNTIMES = {"fake": "any", "oci": "host"}
"""Runtimes of this repository, each with an image that has a shell and Python."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test against every server there is."""
    if "server" in metafunc.fixturenames:
        names = ["given"] if os.environ.get(URL) else list(RUNTIMES)
        metafunc.parametrize("server", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, str]]:
    """Have a server: its URL, a key and an image."""
    name: str = request.param
    if name == "given":
        yield os.environ[URL], os.environ.get(API_KEY, ""), os.environ[IMAGE]
        return
    _skip_unless_it_works_here(name)
    data_dir = tmp_path_factory.mktemp(name) / "data"
    with serving(data_dir, "--runtime", name, "--stop-sandboxes") as running:
        yield running.url, KEY, RUNTIMES[name]


@pytest.fixture
def api(server: tuple[str, str, str]) -> Iterator[Api]:
    """Have a client; what the test made is deleted afterwards."""
    client = Api(*server)
    yield client
    client.close()


@pytest.fixture
def box(api: Api) -> Box:
    """Have a running sandbox."""
    return api.create()


def _skip_unless_it_works_here(name: str) -> None:
    words = [sys.executable, "-m", "opensandbox_server", "--runtime", name, "doctor"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and name != "fake":
        missing = [line for line in done.stdout.splitlines() if line.startswith("missing")]
        pytest.skip(f"the {name} runtime does not work here: {'; '.join(missing) or done.stderr}")
