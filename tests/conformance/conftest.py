# SPDX-License-Identifier: Apache-2.0
"""The runtimes and stores of this repository, each pair with a server of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.postgres import postgres_server
from tests.harness.server import API_KEY, serving

RUNTIMES = {"fake": "any", "oci": "host"}
"""Runtimes of this repository, each with an image that has a shell and Python."""


STORES = ("sqlite", "postgres")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test on every runtime with every store."""
    if "server" in metafunc.fixturenames:
        pairs = [(runtime, store) for runtime in RUNTIMES for store in STORES]
        names = ["-".join(pair) for pair in pairs]
        metafunc.parametrize("server", pairs, indirect=True, ids=names, scope="session")


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, str]]:
    """Have a server: its URL, a key and an image."""
    name, store = request.param
    _skip_unless_it_works_here(name)
    home = tmp_path_factory.mktemp(name)
    with contextlib.ExitStack() as opened:
        words = ["--runtime", name, "--stop-sandboxes"]
        if store == "postgres":
            database = opened.enter_context(postgres_server(tmp_path_factory.mktemp(store)))
            words += ["--config", str(_config(home, database.new_schema()))]
        running = opened.enter_context(serving(home / "data", *words))
        yield running.url, API_KEY, RUNTIMES[name]


def _config(home: Path, url: str) -> Path:
    config = home / "config.toml"
    config.write_text(f'[store]\ntype = "postgres"\nurl = "{url}"\n')
    return config


def _skip_unless_it_works_here(name: str) -> None:
    words = [sys.executable, "-m", "opensandbox_server", "--runtime", name, "doctor"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and name != "fake":
        missing = [line for line in done.stdout.splitlines() if line.startswith("missing")]
        pytest.skip(f"the {name} runtime does not work here: {'; '.join(missing) or done.stderr}")
