# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks, writes build/bench.json and prints how the medians compare.

A missed target is reported and is not an error: the machine may be busy. A benchmark that fails is
an error; one that needs what this machine does not have says so and is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
ENVIRONMENT = ROOT / ".venv" / "bin" / "python"  # has the server and the client


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
    "context_vs_ipykernel": Target(0.05, "new Python context to first result / starting ipykernel"),
    "cell_vs_jupyter_client": Target(0.333, "a warm `1 + 1` / in ipykernel with jupyter_client"),
    "ten_contexts_vs_two_ipykernels": Target(1, "memory of ten Python contexts / two ipykernels"),
    "first_cell_vs_first_command": Target(3, "create to the first cell's end / first command's"),
    "ingress_vs_reverseproxy": Target(1.4, "a request through ingress / Go's ReverseProxy"),
    "create_vs_docker_run": Target(0.111, "create to first output, cold / `docker run`"),
    "sdk_exec_vs_docker_exec": Target(0.0667, "`true` through client and ingress / `docker exec`"),
    "import_vs_httpx": Target(3, "`from opensandbox import Sandbox` / `import httpx`"),
    "server_share_ms": Target(8, "of a create without the runtime / all of it", is_absolute=True),
    "server_share_in_burst_ms": Target(8, "the same in a burst of 100", is_absolute=True),
    "creates_100_at_once": Target(1, "until the last is there / 100 x one alone"),
    "event_loop_stall": Target(
        20, "longest in a burst / without waiting for a processor", is_absolute=True
    ),
    "pause_during_deletes_vs_quiet": Target(
        2, "a pause while four sandboxes of 100,000 files are deleted / while nothing is"
    ),
    "create_at_500_vs_empty": Target(1.3, "a create beside 500 sandboxes / beside none"),
    "osb_help": Target(250, "`osb --help` / `python -c pass`", is_absolute=True),
}


@dataclass
class Measured:
    """What one harness found."""

    results: list[RawResult] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Why a benchmark cannot run here, by its name."""


def summarize(raw: RawResult) -> Result:
    """Fold samples into medians and their ratio."""
    ours, other = statistics.median(raw["ours"]), statistics.median(raw["other"])
    return Result(
        name=raw["name"],
        ours=round(ours, 4),
        other=round(other, 4),
        ratio=float(f"{ours / other:.4g}"),  # a small one keeps its digits
        unit=raw["unit"],
        samples={
            "ours": [round(sample, 4) for sample in raw["ours"]],
            "other": [round(sample, 4) for sample in raw["other"]],
        },
    )


def table(results: list[Result]) -> str:
    """Lay the results out for reading."""
    lines = [
        f"{'benchmark':<32}{'ours':>13}{'other':>13}{'ratio':>8}  {'target':<11}{'met':<5}what"
    ]
    for result in results:
        target = TARGETS[result["name"]]
        ours, other = (f"{result[side]:.2f} {result['unit']}" for side in ("ours", "other"))
        lines.append(
            f"{result['name']:<32}{ours:>13}{other:>13}{result['ratio']:>8.2f}  "
            f"{target.describe(result['unit']):<11}"
            f"{'yes' if target.is_met(result) else 'NO':<5}{target.what}"
        )
    return "\n".join(lines)


def build_harness(name: str) -> Path:
    """Build a Go harness; it is a module of its own."""
    harness = BUILD / "benchmarks" / name
    subprocess.run(
        ["go", "build", "-buildvcs=false", "-o", str(harness), "."],
        cwd=ROOT / "benchmarks" / name,
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    return harness


def run_harness(command: list[str], options: argparse.Namespace, *, takes_scratch: bool) -> Any:
    """Run a harness and return the JSON it prints."""
    if options.quick:
        command = [*command, "--quick"]
    if takes_scratch and options.scratch is not None:
        command = [*command, "--scratch", str(options.scratch.resolve())]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT, check=True)
    return json.loads(done.stdout)


def measure_execd(options: argparse.Namespace) -> Measured:
    """Measure the daemon."""
    command = [str(build_harness("execd")), "-execd", str(options.execd.resolve())]
    return Measured(run_harness(command, options, takes_scratch=True))


def measure_code(options: argparse.Namespace) -> Measured:
    """Measure code contexts."""
    python = ENVIRONMENT if ENVIRONMENT.exists() else sys.executable
    command = [str(python), "-m", "benchmarks.code.main", "--execd", str(options.execd.resolve())]
    return Measured(**run_harness(command, options, takes_scratch=False))


def measure_ingress(options: argparse.Namespace) -> Measured:
    """Measure the front door."""
    command = [str(build_harness("ingress")), "-ingress", str(options.ingress.resolve())]
    found = run_harness(command, options, takes_scratch=False)
    results = [
        RawResult(
            name=one["name"],
            unit=one["unit"],
            ours=one["samples"]["ours"],
            other=one["samples"]["other"],
        )
        for one in found
    ]
    return Measured(results)


def measure_sandbox(options: argparse.Namespace) -> Measured:
    """Measure the server with the embedded runtime."""
    python = ENVIRONMENT if ENVIRONMENT.exists() else sys.executable
    command = [str(python), "-m", "benchmarks.sandbox.main"]
    command += ["--programs", str(options.execd.resolve().parent)]
    return Measured(**run_harness(command, options, takes_scratch=True))


def measure_client(options: argparse.Namespace) -> Measured:
    """Measure the Python client by itself."""
    python = ENVIRONMENT if ENVIRONMENT.exists() else sys.executable
    command = [str(python), "-m", "benchmarks.client.main"]
    return Measured(run_harness(command, options, takes_scratch=False))


def measure_cli(options: argparse.Namespace) -> Measured:
    """Measure how long people wait for osb before it does anything."""
    osb = ENVIRONMENT.with_name("osb")
    if not osb.exists():
        return Measured(skipped={"osb_help": "osb is not installed; run: make setup"})
    samples = RawResult(name="osb_help", unit="ms", ours=[], other=[])
    for _ in range(3 if options.quick else 30):
        samples["ours"].append(_milliseconds([str(osb), "--help"]))
        samples["other"].append(_milliseconds([str(ENVIRONMENT), "-c", "pass"]))
    return Measured([samples])


def _milliseconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - started) * 1000


HARNESSES: dict[str, Callable[[argparse.Namespace], Measured]] = {
    "execd": measure_execd,
    "code": measure_code,
    "ingress": measure_ingress,
    "sandbox": measure_sandbox,
    "client": measure_client,
    "cli": measure_cli,
}


def main() -> int:
    """Parse arguments, measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--execd", type=Path, default=BUILD / "execd", help="the daemon's program")
    parser.add_argument("--ingress", type=Path, default=BUILD / "ingress", help="the front door's")
    parser.add_argument("--output", type=Path, default=BUILD / "bench.json", help="where to write")
    parser.add_argument("--scratch", type=Path, help="directory whose file system is measured")
    parser.add_argument("--quick", action="store_true", help="only show that everything runs")
    parser.add_argument(
        "--only", action="append", choices=list(HARNESSES), help="leave the others out; repeatable"
    )
    arguments = parser.parse_args()
    try:
        measured = [HARNESSES[name](arguments) for name in arguments.only or HARNESSES]
    except subprocess.CalledProcessError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    results = [summarize(one) for found in measured for one in found.results]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))
    for found in measured:
        for name, reason in found.skipped.items():
            print(f"{name} is left out: {reason}")
    missed = [r["name"] for r in results if not TARGETS[r["name"]].is_met(r)]
    print(f"targets missed: {', '.join(missed)}" if missed else "every target is met")
    return 0


if __name__ == "__main__":
    sys.exit(main())
