# SPDX-License-Identifier: Apache-2.0
"""Measures Python code contexts against ipykernel, driven by jupyter_client, and against commands.

    python -m benchmarks.code.main --execd build/execd

Prints JSON: results, and for each benchmark that cannot run here why. Contexts and kernels use the
same Python with the same libraries, from an environment that is made once and kept in the cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = ("context_vs_ipykernel", "cell_vs_jupyter_client", "ten_contexts_vs_two_ipykernels")
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run both harnesses and print what they found as one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--execd", type=Path, required=True, help="the daemon's program")
    parser.add_argument("--quick", action="store_true", help="only show that everything runs")
    arguments = parser.parse_args()
    execd: Path = arguments.execd.resolve()
    quick = ["--quick"] if arguments.quick else []
    against_kernels = measure_against_kernels(execd, quick)
    since_create = harness(
        sys.executable, "benchmarks.code.first", "--programs", str(execd.parent), *quick
    )
    results = [*against_kernels["results"], *since_create["results"]]
    skipped = {**against_kernels["skipped"], **since_create["skipped"]}
    print(json.dumps({"results": results, "skipped": skipped}))
    return 0


def measure_against_kernels(execd: Path, quick: list[str]) -> dict[str, Any]:
    """Find the environment that has jupyter_client and measure in it."""
    sys.path.insert(0, str(ROOT))
    from tests.environments import CACHE, python_with

    if not (CACHE / "tools" / "bin" / "uv").exists():
        reason = "it needs Python packages from PyPI; run: make setup"
        return {"results": [], "skipped": dict.fromkeys(NAMES, reason)}
    python = python_with(ROOT / "tests" / "code" / "requirements.txt")
    return harness(str(python), "benchmarks.code.measure", str(execd), *quick)


def harness(python: str, module: str, *arguments: str) -> dict[str, Any]:
    """Run a program of ours and return the JSON that it prints."""
    command = [python, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
