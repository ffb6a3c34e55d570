# SPDX-License-Identifier: Apache-2.0
"""One command in a sandbox that runs, against `docker exec` in a container that runs."""

from __future__ import annotations

import subprocess
import time

from benchmarks.sandbox.docker import Engine
from benchmarks.sandbox.measure import LIFE, RawResult
from benchmarks.sandbox.server import Server
from opensandbox import SandboxSync

NAME = "sdk_exec_vs_docker_exec"


def measure_execs(server: Server, image: str, engine: Engine, count: int) -> RawResult:
    """Take count samples of each side in turn; the first pair only warms up."""
    config = server.sync_config
    with (
        engine.running_container() as container,
        SandboxSync.temporary(image, connection_config=config, timeout=LIFE) as sandbox,
    ):
        pairs = [(run_true(sandbox), exec_true(engine, container)) for _ in range(count + 1)]
    ours, other = ([pair[side] for pair in pairs[1:]] for side in (0, 1))
    return RawResult(name=NAME, unit="ms", ours=ours, other=other)


def run_true(sandbox: SandboxSync) -> float:
    """Time `commands.run("true")` through client, ingress and execd, in milliseconds."""
    began = time.perf_counter()
    execution = sandbox.commands.run("true")
    took = time.perf_counter() - began
    if execution.exit_code != 0:
        raise RuntimeError(f"true ended with {execution.exit_code}")
    return took * 1000


def exec_true(engine: Engine, container: str) -> float:
    """Time `docker exec CONTAINER sh -c true` from its start to its end, in milliseconds."""
    command = engine.docker("exec", container, "sh", "-c", "true")
    began = time.perf_counter()
    subprocess.run(command, check=True)
    return (time.perf_counter() - began) * 1000
