# SPDX-License-Identifier: Apache-2.0
"""After everything there is what there was before: no process, mount, link, rule, cgroup, file."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from opensandbox import SandboxSync
from opensandbox.models.execd import RunCommandOpts
from tests.e2e.traces import Marks, look
from tests.harness.server import RuntimeName, Server, start_server

WAIT_SECONDS = 20.0  # bounds how long descriptors may take to be closed
BACKGROUND = RunCommandOpts(background=True)


@pytest.fixture
def sweeper() -> Iterator[ExitStack]:
    """Ends what a failed test leaves."""
    with ExitStack() as stack:
        yield stack


def use_every_way_to_end(server: Server) -> int:
    """Make sandboxes that are hard to end, and end them. Returns how many."""
    made = [SandboxSync.create("host", connection_config=server.sync_config) for _ in range(5)]
    plain, busy, orphans, frozen, deaf = made
    plain.commands.run("echo done")
    busy.commands.run("while :; do :; done", opts=BACKGROUND)
    orphans.commands.run("setsid sh -c 'sleep 1000 & sleep 1000' & exit 0")
    deaf.commands.run("trap '' TERM INT HUP; while :; do sleep 1000; done", opts=BACKGROUND)
    frozen.commands.run("sleep 1000", opts=BACKGROUND)
    session = plain.commands.create_session()
    plain.commands.run_in_session(session, "cd /tmp; export STAYS=yes")
    frozen.pause()
    with SandboxSync.create(
        "host",
        entrypoint=["sleep", "0.3"],
        connection_config=server.sync_config,
        skip_health_check=True,
    ) as brief:
        for sandbox in (*made, brief):
            sandbox.kill()
    for sandbox in made:
        sandbox.close()
    return len(made) + 1


def test_nothing_is_left_when_the_server_has_ended(
    runtime: RuntimeName, home: Path, sweeper: ExitStack
) -> None:
    marks = Marks()
    first = start_server(runtime, home)
    sweeper.callback(first.sweep)
    with SandboxSync.create("host", connection_config=first.sync_config) as sandbox:
        marks.notice(first.data_dir, first.descendants())
        sandbox.kill()
    first.terminate()
    assert first.wait_until_nothing_is_left() == 0
    before = look(marks, home)
    assert before.links == frozenset()
    assert before.cgroups == frozenset()
    if runtime == "oci":
        assert marks.bridges, "nothing was measured"
        assert marks.cgroups, "nothing was measured"

    second = start_server(runtime, home)
    sweeper.callback(second.sweep)
    use_every_way_to_end(second)
    second.terminate()
    assert second.wait_until_nothing_is_left() == 0
    assert look(marks, home) == before


def test_what_a_server_holds_does_not_grow_with_the_sandboxes_it_has_made(
    runtime: RuntimeName, home: Path, sweeper: ExitStack
) -> None:
    server = start_server(runtime, home)
    sweeper.callback(server.sweep)
    for _ in range(2):
        use_every_way_to_end(server)
    descriptors, processes = at_rest(server)
    made = sum(use_every_way_to_end(server) for _ in range(4))
    more_descriptors, same_processes = at_rest(server)
    assert same_processes == processes
    # Threads and pools may still have grown a little; one for each sandbox would be this many.
    assert more_descriptors < descriptors + made
    server.terminate()
    assert server.wait_until_nothing_is_left() == 0


def at_rest(server: Server) -> tuple[int, int]:
    """Count what is held, once the count no longer changes and nothing is being deleted."""
    deadline = time.monotonic() + WAIT_SECONDS
    last = (-1, -1)
    while (now := held(server)) != last or deletes(server):
        assert time.monotonic() < deadline, "never comes to rest"
        last = now
        time.sleep(0.5)
    return now


def deletes(server: Server) -> bool:
    """Say whether files of ended sandboxes are there; nobody but a test waits for that."""
    if any((server.data_dir / "trash").glob("*")):
        return True
    for pid in server.descendants():
        with suppress(FileNotFoundError, ProcessLookupError):
            if b"empty_trash" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
    return False


def held(server: Server) -> tuple[int, int]:
    """Count descriptors and processes of the server and its helpers."""
    processes = server.descendants()
    descriptors = 0
    for pid in processes:
        with suppress(FileNotFoundError):  # it has just ended, and the count is not at rest
            descriptors += len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return descriptors, len(processes)
