# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks, writes build/bench.json and prints how the medians compare.

A missed target is reported and is not an error: the machine may be busy. A benchmark that cannot
run is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


class RawResult(TypedDict):
    """What the harness measured: the samples of one benchmark, in unit."""

    name: str
    unit: str
    ours: list[float]
    other: list[float]


class Result(TypedDict):
    """One entry of bench.json. Ratio is ours ÷ other, each the median of its samples."""

    name: str
    ours: float
    other: float
    ratio: float
    unit: str
    samples: dict[str, list[float]]


@dataclass(frozen=True)
class Target:
    """The most that may be: of the ratio, or of our own median when is_absolute."""

    limit: float
    what: str
    is_absolute: bool = False

    def is_met(self, result: Result) -> bool:
        """Compare the result with the limit."""
        return (result["ours"] if self.is_absolute else result["ratio"]) <= self.limit

    def describe(self, unit: str) -> str:
        """Say the limit in a few characters."""
        return f"≤ {self.limit:g} {unit}" if self.is_absolute else f"≤ {self.limit:g} x"


TARGETS = {
    "exec_vs_spawn": Target(2, "argv `true` through execd / spawning `true`"),
    "shell_vs_spawn": Target(2, "shell text `true` through execd / spawning `bash -c true`"),
    "upload_vs_cat": Target(2, "1 GiB upload / `cat` from a unix socket to a file"),
    "download_vs_cat": Target(2, "1 GiB download / `cat` from a file to a unix socket"),
    "execd_start": Target(10, "start to first answer / spawning `true`", is_absolute=True),
    "execd_idle_rss": Target(12, "resident when idle / a bare Go HTTP server", is_absolute=True),
}


def summarize(raw: RawResult) -> Result:
    """Fold samples into medians and their ratio."""
    ours, other = statistics.median(raw["ours"]), statistics.median(raw["other"])
    return Result(
        name=raw["name"],
        ours=round(ours, 4),
        other=round(other, 4),
        ratio=round(ours / other, 4),
        unit=raw["unit"],
        samples={
            "ours": [round(sample, 4) for sample in raw["ours"]],
            "other": [round(sample, 4) for sample in raw["other"]],
        },
    )


def table(results: list[Result]) -> str:
    """Lay the results out for reading."""
    lines = [
        f"{'benchmark':<17}{'ours':>13}{'other':>13}{'ratio':>8}  {'target':<11}{'met':<5}what"
    ]
    for result in results:
        target = TARGETS[result["name"]]
        ours, other = (f"{result[side]:.2f} {result['unit']}" for side in ("ours", "other"))
        lines.append(
            f"{result['name']:<17}{ours:>13}{other:>13}{result['ratio']:>8.2f}  "
            f"{target.describe(result['unit']):<11}"
            f"{'yes' if target.is_met(result) else 'NO':<5}{target.what}"
        )
    return "\n".join(lines)


def measure(execd: Path, *, is_quick: bool, scratch: Path | None) -> list[RawResult]:
    """Build the Go harness and run it."""
    harness = BUILD / "benchmarks" / "execd"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    tools = cache / "opensandbox" / "tools" / "bin"  # where setup puts Go when there is none
    path = f"{tools}:{os.environ['PATH']}"
    subprocess.run(
        ["go", "build", "-buildvcs=false", "-o", str(harness), "."],
        cwd=ROOT / "benchmarks" / "execd",
        env={**os.environ, "CGO_ENABLED": "0", "PATH": path},
        check=True,
    )
    command = [str(harness), "-execd", str(execd.resolve())]
    if is_quick:
        command.append("-quick")
    if scratch is not None:
        command += ["-scratch", str(scratch)]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    results: list[RawResult] = json.loads(output)
    return results


def main() -> int:
    """Parse arguments, measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--execd", type=Path, default=BUILD / "execd", help="the daemon's program")
    parser.add_argument("--output", type=Path, default=BUILD / "bench.json", help="where to write")
    parser.add_argument("--scratch", type=Path, help="directory whose file system is measured")
    parser.add_argument("--quick", action="store_true", help="only show that everything runs")
    arguments = parser.parse_args()
    try:
        raw = measure(arguments.execd, is_quick=arguments.quick, scratch=arguments.scratch)
    except subprocess.CalledProcessError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    results = [summarize(one) for one in raw]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))
    missed = [r["name"] for r in results if not TARGETS[r["name"]].is_met(r)]
    print(f"targets missed: {', '.join(missed)}" if missed else "every target is met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
