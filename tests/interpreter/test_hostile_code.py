# SPDX-License-Identifier: Apache-2.0
"""Code that uses up or ends what its sandbox has; the sandbox and its other contexts stay true."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from opensandbox import SandboxSync
from opensandbox.models import CodeContext, Execution
from tests.harness.server import Server, make_home, run_server, start_server
from tests.harness.wait import eventually

pytestmark = pytest.mark.timeout(200)

BOMB = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""


@pytest.fixture
def sandbox(server: Server) -> Iterator[SandboxSync]:
    """Make a sandbox that has little."""
    resource = {"memory": "512Mi", "cpu": "1", "pids": "100"}
    config = server.sync_config
    with SandboxSync.temporary("host", connection_config=config, resource=resource) as sandbox:
        yield sandbox


def run(sandbox: SandboxSync, code: str, context: CodeContext, limit: int = 60) -> Execution:
    """Run code for at most so many seconds."""
    return sandbox.codes.run(code, context=context, timeout=timedelta(seconds=limit))


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("kept = []\nwhile True: kept.append(bytearray(10_000_000))", "InterpreterDied"),
        (BOMB, "TimeoutError"),
    ],
)
def test_code_that_uses_up_everything_is_ended_and_others_live_on(
    sandbox: SandboxSync, code: str, name: str
) -> None:
    one, other = (sandbox.codes.create_context("python") for _ in range(2))
    run(sandbox, "x = 42", other)
    failed = run(sandbox, code, one, limit=5 if code == BOMB else 60)
    assert failed.error is not None
    assert failed.error.name == name
    assert failed.complete is None
    assert run(sandbox, "x", other).text == "42"
    assert run(sandbox, "6 * 7", one).text == "42"
    eventually(lambda: int(sandbox.commands.run("ls -d /proc/[0-9]* | wc -l").text or 20) < 20)


def test_code_that_kills_every_process_ends_the_sandbox_and_that_is_told(
    server: Server, sandbox: SandboxSync
) -> None:
    context = sandbox.codes.create_context("python")
    run(sandbox, "import os; os.kill(-1, 9)", context)
    eventually(lambda: sandbox.get_info().status.state == "Failed")
    with SandboxSync.temporary("host", connection_config=server.sync_config) as another:
        assert another.codes.run("6 * 7").text == "42"


def test_a_context_and_its_state_are_found_again_after_the_server_was_killed() -> None:
    with make_home() as home:
        first = start_server("oci", home)
        try:
            _run_through_a_kill(first, home)
        finally:
            first.sweep()


def _run_through_a_kill(first: Server, home: Path) -> None:
    with SandboxSync.create("host", connection_config=first.sync_config) as sandbox:
        context = sandbox.codes.create_context("python")
        run(sandbox, "x = 42", context)
        first.kill()
    with (
        run_server("oci", home) as second,
        SandboxSync.connect(sandbox.id, second.sync_config) as found,
    ):
        assert [one.id for one in found.codes.list_contexts()] == [context.id]
        assert run(found, "x", context).text == "42"
        found.kill()
