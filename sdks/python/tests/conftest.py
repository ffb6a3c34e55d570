# SPDX-License-Identifier: Apache-2.0
"""Fixtures for both halves: the real execd, and a stand-in for the lifecycle server."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sdks.python.tests.cutting import Cutter, run_cutter
from tests.harness.execd import OWN, TOKEN_HEADER, Daemon, run_daemon
from tests.harness.lifecycle import API_KEY, StandIn, run_standin
from tests.harness.server import API_KEY as SERVER_KEY
from tests.harness.server import RuntimeName, Server, obstacle, shared_server


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the loop the client is made for."""
    return "asyncio"


@pytest.fixture(scope="session")
def execd() -> Iterator[Daemon]:
    """Run one execd for all tests; each has a directory of its own."""
    environment = {"PATH": os.environ["PATH"]}
    with run_daemon(OWN, environment=environment, token="token-of-the-tests") as daemon:  # noqa: S106
        yield daemon


@pytest.fixture
def standin(execd: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Run a lifecycle server whose sandboxes are all ``execd``."""
    monkeypatch.setenv("OPEN_SANDBOX_API_KEY", API_KEY)
    # A report comes whenever it comes, and would take an answer that was meant for another request.
    monkeypatch.setenv("OPENSANDBOX_DISABLE_METRICS", "1")
    with run_standin() as standin:
        standin.execd = {"endpoint": execd.address, "headers": {TOKEN_HEADER: execd.token}}
        monkeypatch.setenv("OPEN_SANDBOX_DOMAIN", standin.domain)
        yield standin


@pytest.fixture
def cutter(execd: Daemon, standin: StandIn) -> Iterator[Cutter]:
    """Put a proxy that cuts connections in front of the daemon."""
    with run_cutter(execd.address) as cutter:
        standin.execd = {**standin.execd, "endpoint": cutter.address}
        yield cutter


@pytest.fixture(scope="session")
def real_server() -> Iterator[Server]:
    """Run a real server: on the embedded runtime, or on the fake one where that does not work."""
    runtime: RuntimeName = "fake" if obstacle("oci") else "oci"
    with shared_server(runtime) as started:
        yield started


@pytest.fixture
def served(real_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Name the real server in the environment, as users do."""
    monkeypatch.setenv("OPEN_SANDBOX_DOMAIN", real_server.domain)
    monkeypatch.setenv("OPEN_SANDBOX_API_KEY", SERVER_KEY)
    return real_server


@pytest.fixture
def workdir(execd: Daemon, tmp_path: Path) -> str:
    """Return a directory inside the sandbox that only this test uses."""
    directory = Path(execd.workdir, tmp_path.name)
    directory.mkdir(exist_ok=True)
    return str(directory)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Run a real server for all tests that need one; they leave no sandbox."""
    with shared_server("fake") as started:
        yield started
