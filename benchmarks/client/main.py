# SPDX-License-Identifier: Apache-2.0
"""Measures how long importing the client takes, against httpx, which it stands on.

    python -m benchmarks.client.main

Prints JSON results. Each sample is a process of its own, which times only the import. The name is
taken too, `from opensandbox import Sandbox`: the package itself loads nothing before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

SAMPLES, QUICK_SAMPLES = 21, 3
OURS, OTHER = "from opensandbox import Sandbox", "import httpx"


def main() -> int:
    """Take samples of both sides in turn; the first pair only warms up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only show that everything runs")
    count = QUICK_SAMPLES if parser.parse_args().quick else SAMPLES
    pairs = [(milliseconds(OURS), milliseconds(OTHER)) for _ in range(count + 1)][1:]
    ours, other = ([pair[side] for pair in pairs] for side in (0, 1))
    result = {"name": "import_vs_httpx", "unit": "ms", "ours": ours, "other": other}
    print(json.dumps([result]))
    return 0


def milliseconds(statement: str) -> float:
    """Time one statement in a fresh interpreter."""
    program = (
        f"import time; began = time.perf_counter(); {statement}; "
        "print((time.perf_counter() - began) * 1000)"
    )
    command = [sys.executable, "-c", program]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


if __name__ == "__main__":
    sys.exit(main())
