# SPDX-License-Identifier: Apache-2.0
"""The published client, unmodified and in its own virtual environment, against our daemon."""

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon import KINDS, DaemonUnavailableError, Kind, run_daemon
from tests.published import lifecycle

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE / "scenarios.py"
REQUIREMENTS = HERE / "requirements.txt"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox"


def scenario_names() -> list[str]:
    """Read the names without importing: the client is not installed in this environment."""
    tree = ast.parse(SCENARIOS.read_text())
    functions = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return [name for name in functions if name.startswith("scenario_")]


@pytest.fixture(scope="session")
def client_python() -> Path:
    """Make the client's environment once for each list of versions, and return its Python."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    home = CACHE / "clients" / key
    python = home / "bin" / "python"
    if not (home / ".complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        uv = str(CACHE / "tools" / "bin" / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(home)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        subprocess.run([*install, "--requirement", str(REQUIREMENTS)], check=True)
        (home / ".complete").touch()
    return python


@pytest.fixture(scope="module", params=KINDS)
def outcomes(request: pytest.FixtureRequest, client_python: Path) -> dict[str, str | None]:
    """Run all scenarios against one daemon and return what went wrong in each."""
    kind: Kind = request.param
    try:
        with run_daemon(kind) as daemon, lifecycle.serving(daemon.url[7:]) as domain:
            command = [str(client_python), str(SCENARIOS), domain, daemon.workdir]
            finished = subprocess.run(
                command, capture_output=True, text=True, timeout=100, check=False
            )
    except DaemonUnavailableError as reason:
        pytest.skip(str(reason))
    assert finished.returncode == 0, finished.stderr
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    return {line["name"]: line["failure"] for line in lines}


@pytest.mark.parametrize("name", scenario_names())
def test_the_published_client_can(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
