# SPDX-License-Identifier: Apache-2.0
"""Measures creating sandboxes on the embedded runtime, against `docker run` of the same files.

    python -m benchmarks.sandbox.main --programs build

Prints JSON: results, and for each benchmark that cannot run here why. Everything happens in
namespaces of its own, so that neither engine changes the machine's network or mounts, and whatever
is left ends with this program.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.sandbox.docker import Engine, find_programs, running_engine
from benchmarks.sandbox.rootfs import Unavailable, base_rootfs

INSIDE = "OPENSANDBOX_BENCH_INSIDE"
IMAGE = "bench-base"
SANDBOX_RESULTS = (
    "server_share_ms",
    "server_share_in_burst_ms",
    "creates_100_at_once",
    "event_loop_stall",
    "pause_during_deletes_vs_quiet",
    "create_at_500_vs_empty",
)
DOCKER_RESULTS = ("create_vs_docker_run", "sdk_exec_vs_docker_exec")
BURSTS, AT_ONCE = 5, 100
DELETES, FILES = 3, 100_000
CROWD = 500


def main() -> int:
    """Get what comes from elsewhere, step into namespaces, then measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True, help="where execd and ingress are")
    parser.add_argument("--count", type=int, default=40, help="samples of each create")
    parser.add_argument("--quick", action="store_true", help="only show that everything runs")
    parser.add_argument("--scratch", type=Path, help="directory whose file system is measured")
    arguments = parser.parse_args()
    if reason := obstacle():
        skipped = dict.fromkeys((*DOCKER_RESULTS, *SANDBOX_RESULTS), reason)
        print(json.dumps({"results": [], "skipped": skipped}))
        return 0
    if INSIDE not in os.environ:
        return step_inside(prepare(is_quick=arguments.quick))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    prepared = Prepared(**json.loads(os.environ.pop(INSIDE)))
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.scratch) as scratch:
        print(json.dumps(measure(arguments, prepared, Path(scratch))))
    return 0


@dataclass
class Prepared:
    """What was found or fetched while there still was a network."""

    archive: str = ""
    search_path: str = ""
    reason: str = ""
    """Why there is nothing to compare with."""


def prepare(*, is_quick: bool) -> Prepared:
    """Find the root file system and Docker; a quick run downloads nothing."""
    prepared = Prepared()
    try:
        prepared.archive = str(base_rootfs(may_make=not is_quick))
        prepared.search_path = find_programs(may_fetch=not is_quick)
    except Unavailable as reason:
        prepared.reason = str(reason)
    return prepared


def step_inside(prepared: Prepared) -> int:
    """Run this program again, in namespaces of its own."""
    spaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    module = [sys.executable, "-m", "benchmarks.sandbox.main", *sys.argv[1:]]
    environment = {**os.environ, INSIDE: json.dumps(asdict(prepared))}
    command = ["unshare", *spaces, *module]
    return subprocess.run(command, env=environment, check=False).returncode


def obstacle() -> str:
    """Say what keeps everything here from running; empty when nothing does."""
    try:
        import opensandbox_server  # noqa: F401  # only asks whether it is here
    except ImportError:
        return "opensandbox-server is not installed; scripts/setup run"
    if os.geteuid() != 0:
        return "the embedded runtime needs root"
    missing = [name for name in ("unshare", "ip") if shutil.which(name) is None]
    if not (shutil.which("crun") or shutil.which("runc")):
        missing.append("crun")
    return f"{', '.join(missing)} missing; apt-get install crun iproute2" if missing else ""


def measure(arguments: argparse.Namespace, prepared: Prepared, scratch: Path) -> dict[str, object]:
    """Run everything that can run; quick takes few samples."""
    # Imported here: without the server installed obstacle must still be able to say so.
    from benchmarks.sandbox.crowd import measure_crowd
    from benchmarks.sandbox.deletes import measure_deletes
    from benchmarks.sandbox.execs import measure_execs
    from benchmarks.sandbox.measure import measure_bursts, measure_creates
    from benchmarks.sandbox.server import import_image, running_server

    image, reason = "host", prepared.reason
    if prepared.archive:
        import_image(scratch / "data", Path(prepared.archive), IMAGE)
        image = IMAGE
    with contextlib.ExitStack() as stack:
        engine: Engine | None = None
        if not reason:
            running = running_engine(scratch, Path(prepared.archive), prepared.search_path)
            try:
                engine = stack.enter_context(running)
            except Unavailable as fault:
                reason = str(fault)
        server = stack.enter_context(running_server(scratch / "data", arguments.programs))
        count, bursts = (3, 1) if arguments.quick else (arguments.count, BURSTS)
        results = measure_creates(server, image, engine, count).results()
        if engine is not None:
            results.append(measure_execs(server, image, engine, count))
        results += measure_bursts(server, image, bursts, AT_ONCE)
        deletes, files = (1, 2000) if arguments.quick else (DELETES, FILES)
        results.append(measure_deletes(server, image, deletes, files))
        crowd = 10 if arguments.quick else CROWD
        results.append(measure_crowd(server, image, crowd, count))
    skipped = dict.fromkeys(DOCKER_RESULTS, reason) if reason else {}
    return {"results": results, "skipped": skipped}


if __name__ == "__main__":
    sys.exit(main())
