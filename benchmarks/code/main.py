# SPDX-License-Identifier: Apache-2.0
"""Measures Python code contexts against ipykernel, driven by jupyter_client.

    python -m benchmarks.code.main --execd build/execd

Prints JSON: results, and for each benchmark that cannot run here why. Both sides use the same
Python with the same libraries, from an environment that is made once and kept in the cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

NAMES = ("context_vs_ipykernel", "cell_vs_jupyter_client", "ten_contexts_vs_two_ipykernels")
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Find the environment and measure in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--execd", type=Path, required=True, help="the daemon's program")
    parser.add_argument("--quick", action="store_true", help="only show that everything runs")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.environments import CACHE, python_with

    if not (CACHE / "tools" / "bin" / "uv").exists():
        reason = "it needs Python packages from PyPI; run: make setup"
        print(json.dumps({"results": [], "skipped": dict.fromkeys(NAMES, reason)}))
        return 0
    python = python_with(ROOT / "tests" / "code" / "requirements.txt")
    command = [str(python), "-m", "benchmarks.code.measure", str(arguments.execd.resolve())]
    if arguments.quick:
        command.append("--quick")
    return subprocess.run(command, cwd=ROOT, check=True).returncode


if __name__ == "__main__":
    sys.exit(main())
