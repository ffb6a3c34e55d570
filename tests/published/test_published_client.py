# SPDX-License-Identifier: Apache-2.0
"""The published client, unmodified and in its own virtual environment, against our daemon."""

import ast
import json
import subprocess
from pathlib import Path

import pytest

from tests.daemon import KINDS, DaemonUnavailableError, Kind, run_daemon
from tests.published import lifecycle
from tests.published.environment import published_python

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE / "scenarios.py"


def scenario_names() -> list[str]:
    """Read the names without importing: the client is not installed in this environment."""
    tree = ast.parse(SCENARIOS.read_text())
    functions = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return [name for name in functions if name.startswith("scenario_")]


@pytest.fixture(scope="module", params=KINDS)
def outcomes(request: pytest.FixtureRequest) -> dict[str, str | None]:
    """Run all scenarios against one daemon and return what went wrong in each."""
    kind: Kind = request.param
    try:
        with run_daemon(kind) as daemon, lifecycle.serving(daemon.url[7:]) as domain:
            command = [str(published_python()), str(SCENARIOS), domain, daemon.workdir]
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
