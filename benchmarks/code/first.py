# SPDX-License-Identifier: Apache-2.0
"""Measures how soon a new sandbox has run its first cell, against its first command.

    python -m benchmarks.code.first --programs build
    python -m benchmarks.code.first --programs build --data-dir DIR --image code-interpreter

Prints JSON: results, and for each benchmark that cannot run here why. The server runs in namespaces
of its own, so that whatever is left ends with this program.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.sandbox.main import obstacle

if TYPE_CHECKING:
    from benchmarks.sandbox.measure import RawResult
    from benchmarks.sandbox.server import Server
    from opensandbox import SandboxSync

INSIDE = "OPENSANDBOX_BENCH_INSIDE"
NAME = "first_cell_vs_first_command"
CELL, VALUE = "1 + 1", "2"
SETTLE_SECONDS = 0.5  # what one sample leaves to be cleaned up must not slow the next one down


def main() -> int:
    """Step into namespaces, then measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True, help="where execd and ingress are")
    parser.add_argument("--count", type=int, default=30, help="samples of each side")
    parser.add_argument("--image", default="host", help="what the sandboxes are made of")
    parser.add_argument("--data-dir", type=Path, help="of a server that has this image")
    parser.add_argument("--cell", default=CELL, help="the first cell; 1 + 1 has the target")
    parser.add_argument("--quick", action="store_true", help="only show that everything runs")
    arguments = parser.parse_args()
    if reason := obstacle():
        print(json.dumps({"results": [], "skipped": {NAME: reason}}))
        return 0
    if INSIDE not in os.environ:
        return step_inside()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        print(json.dumps({"results": [measure(arguments, Path(scratch))], "skipped": {}}))
    return 0


def step_inside() -> int:
    """Run this program again, in namespaces of its own."""
    spaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    module = [sys.executable, "-m", "benchmarks.code.first", *sys.argv[1:]]
    environment = {**os.environ, INSIDE: "yes"}
    return subprocess.run(["unshare", *spaces, *module], env=environment, check=False).returncode


def measure(arguments: argparse.Namespace, scratch: Path) -> RawResult:
    """Take one sample of each side in turn; the first pair only warms up."""
    # Imported here: without the server installed obstacle must still be able to say so.
    from benchmarks.sandbox.measure import RawResult
    from benchmarks.sandbox.server import running_server

    def cell(sandbox: SandboxSync) -> None:
        run_cell(sandbox, arguments.cell)

    count = 2 if arguments.quick else arguments.count
    ours, other = [], []
    with running_server(arguments.data_dir or scratch / "data", arguments.programs) as server:
        for _ in range(count + 1):
            ours.append(since_create_ms(server, arguments.image, cell))
            other.append(since_create_ms(server, arguments.image, run_command))
    return RawResult(name=NAME, unit="ms", ours=ours[1:], other=other[1:])


def since_create_ms(server: Server, image: str, run: Callable[[SandboxSync], None]) -> float:
    """Time making a sandbox and doing something in it; ending it is not part of the time."""
    from opensandbox import SandboxSync

    time.sleep(SETTLE_SECONDS)
    began = time.perf_counter()
    sandbox = SandboxSync.create(image, connection_config=server.sync_config)
    try:
        run(sandbox)
        return (time.perf_counter() - began) * 1000
    finally:
        sandbox.destroy()


def run_command(sandbox: SandboxSync) -> None:
    """Run a command to its end."""
    execution = sandbox.commands.run("echo hello")
    if execution.text != "hello":
        raise RuntimeError(f"a command said {execution.text!r}: {execution.error}")


def run_cell(sandbox: SandboxSync, code: str) -> None:
    """Run a cell to its end, as a program does that begins with it."""
    from code_interpreter import CodeInterpreterSync, SupportedLanguage

    interpreter = CodeInterpreterSync.create(sandbox)
    execution = interpreter.codes.run(code, language=SupportedLanguage.PYTHON)
    if execution.error or (code == CELL and execution.result[0].text != VALUE):
        raise RuntimeError(f"the cell said {execution}")


if __name__ == "__main__":
    sys.exit(main())
