# SPDX-License-Identifier: Apache-2.0
"""A cell that forks without end, within a limit of processes."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.code.cells import made
from tests.code.interpreters import surroundings
from tests.execd.events import next_of
from tests.harness.execd import OWN, run_daemon
from tests.harness.wait import eventually

LIMIT = 120
ROOTS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
BOMB = """
import os
print("lit", flush=True)
while True:
    try: os.fork()
    except OSError: pass
"""


def processes(group: Path) -> int:
    """Count the processes of a control group."""
    return len((group / "cgroup.procs").read_text().split())


@contextmanager
def limited() -> Iterator[Path]:
    """Make a control group with a limit of processes; skip where that is not possible."""
    if os.geteuid() != 0:
        pytest.skip("a limit of processes needs root")
    for root in ROOTS:
        try:
            group = Path(tempfile.mkdtemp(prefix="code-", dir=root))
        except OSError:
            continue
        try:
            if not (group / "pids.max").exists():
                continue
            (group / "pids.max").write_text(str(LIMIT))
            yield group
            return
        finally:
            while processes(group):  # the daemon has ended; what it killed is on its way
                time.sleep(0.01)
            group.rmdir()
    pytest.skip("this machine has no control group that limits processes")


def test_a_fork_bomb_is_ended_with_its_context_and_others_live_on() -> None:
    with limited() as group, run_daemon(OWN, environment=surroundings()) as daemon:
        (group / "cgroup.procs").write_text(str(daemon.pid))
        other = made(daemon.client, "python")
        other.run("x = 1")
        one = made(daemon.client, "python")
        with one.running(BOMB) as events:
            next_of(events, "stdout")
            eventually(lambda: processes(group) > LIMIT // 2)
            one.delete()
            assert next_of(events, "error")["error"]["ename"] == "ContextDeleted"
        eventually(lambda: processes(group) < LIMIT // 2)
        assert other.value("x") == "1"
        assert made(daemon.client, "python").value("1 + 1") == "2"
