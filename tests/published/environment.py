# SPDX-License-Identifier: Apache-2.0
"""The published client's own virtual environment, and the programs that run in it."""

import ast
import json
import os
import subprocess
from pathlib import Path

from tests.environments import python_with
from tests.harness.wait import PATIENCE

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE / "scenarios.py"
RUN_SECONDS = PATIENCE + 20  # bounds all scenarios of one file; one that hangs says so before


def published_python() -> Path:
    """Return the Python that has the published client."""
    return python_with(HERE / "requirements.txt")


def scenario_names(file: Path) -> list[str]:
    """Read the names without importing: the client is not installed in this environment."""
    tree = ast.parse(file.read_text())
    functions = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return [name for name in functions if name.startswith("scenario_")]


def run_scenarios(python: Path, file: Path, *arguments: str) -> dict[str, str | None]:
    """Run all scenarios of a file, and return what went wrong in each."""
    finished = subprocess.run(
        [str(python), str(file), *arguments],
        env=os.environ | {"PYTHONPATH": str(HERE.parents[1])},  # where tests.harness is
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    return {line["name"]: line["failure"] for line in lines}
