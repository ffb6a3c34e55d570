# SPDX-License-Identifier: Apache-2.0
"""A server of a release is replaced by this one while its sandboxes are used: `make packages`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from opensandbox import SandboxSync
from opensandbox.exceptions import SandboxException
from opensandbox.models.execd_sync import ExecutionHandlersSync
from tests.harness.server import ROOT, Server, make_home, obstacle, start_server
from tests.harness.wait import eventually

COMMITS = {"v0.1.0": "f5a9acc21619"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox"
COUNTING = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo $i; sleep 0.02; done"

# The first time a release is built.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(params=COMMITS)
def release(request: pytest.FixtureRequest) -> Path:
    """The tree of a release, with all that its server needs; kept for the next run."""
    if reason := obstacle("oci"):
        pytest.skip(reason)
    commit = COMMITS[request.param]
    tree = CACHE / f"release-{commit}"
    if not (tree / ".complete").exists():
        subprocess.run(["rm", "-rf", str(tree)], check=True)
        tree.mkdir(parents=True)
        files = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
        ).stdout
        subprocess.run(["tar", "-x"], cwd=tree, input=files, check=True)
        subprocess.run(["make", "setup-run", "build"], cwd=tree, check=True)
        (tree / ".complete").touch()
    return tree


class Counter:
    """Follows a command that counts, through whatever happens to the server."""

    def __init__(self, sandbox: SandboxSync) -> None:
        self.lines: list[int] = []
        self._sandbox = sandbox
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        handlers = ExecutionHandlersSync(on_stdout=lambda line: self.lines.append(int(line.text)))
        with contextlib.suppress(SandboxException):  # the sandbox is ended while it counts
            self._sandbox.commands.run(COUNTING, handlers=handlers)

    def wait_beyond(self, count: int) -> None:
        """Wait until more has come."""
        eventually(lambda: len(self.lines) > count, lambda: f"there are {len(self.lines)} lines")


@pytest.fixture
def old(release: Path) -> Iterator[Server]:
    """A server of the release."""
    with make_home() as home:
        python, programs = str(release / ".venv" / "bin" / "python"), release / "build"
        started = start_server("oci", home, python=python, programs=programs)
        try:
            yield started
        finally:
            started.sweep()


def test_a_stream_goes_on_when_this_server_takes_over(old: Server) -> None:
    sandbox = SandboxSync.create("host", connection_config=old.sync_config)
    sandbox.files.write_file("/tmp/kept", "kept")
    counter = Counter(sandbox)
    counter.wait_beyond(20)
    old.kill()
    seen = len(counter.lines)
    new = start_server("oci", old.home, port=old.port)
    try:
        counter.wait_beyond(seen + 50)
        assert counter.lines == list(range(1, len(counter.lines) + 1))
        assert sandbox.get_info().status.state == "Running"
        assert sandbox.commands.run("cat /tmp/kept").text == "kept"
        sandbox.destroy()
        new.terminate()
    finally:
        new.sweep()
