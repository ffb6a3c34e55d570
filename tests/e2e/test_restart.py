# SPDX-License-Identifier: Apache-2.0
"""The server ends, in an orderly way or not; sandboxes do not, and the next server has them all."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from opensandbox import Sandbox, SandboxManagerSync, SandboxSync
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import SandboxException
from opensandbox.models import SandboxFilter
from opensandbox.models.execd import RunCommandOpts
from tests.e2e.traces import Marks, look
from tests.harness.server import RuntimeName, Server, start_server

EVERYTHING = SandboxFilter(page_size=200)


class Servers:
    """Starts of one server on one data directory and one port."""

    def __init__(self, runtime: RuntimeName, home: Path) -> None:
        self._runtime = runtime
        self._home = home
        self._port = 0
        self.starts: list[Server] = []

    def start(self) -> Server:
        """Start it, again on the same port."""
        started = start_server(self._runtime, self._home, port=self._port)
        self._port = started.port
        self.starts.append(started)
        return started

    def wait_until_nothing_is_left(self) -> None:
        """Wait until every process of every start is gone."""
        for server in self.starts:
            server.wait_until_nothing_is_left()


@pytest.fixture
def servers(runtime: RuntimeName, home: Path) -> Iterator[Servers]:
    """Starts of a server that this test alone uses."""
    made = Servers(runtime, home)
    yield made
    for server in made.starts:
        server.sweep()


def states(server: Server) -> dict[str, str]:
    with SandboxManagerSync.create(server.sync_config) as manager:
        infos = manager.list_sandbox_infos(EVERYTHING).sandbox_infos
        return {info.id: info.status.state for info in infos}


def kill_all(server: Server) -> None:
    with SandboxManagerSync.create(server.sync_config) as manager:
        for info in manager.list_sandbox_infos(EVERYTHING).sandbox_infos:
            manager.kill_sandbox(info.id)


@pytest.mark.parametrize("way", ["terminate", "kill"])
def test_sandboxes_outlive_the_server_and_are_found_again(servers: Servers, way: str) -> None:
    first = servers.start()
    running, paused, ended = (
        SandboxSync.create("host", connection_config=first.sync_config) for _ in range(3)
    )
    with running, paused, ended:
        work = running.commands.run("mktemp -d").text
        counting = f"i=0; while :; do i=$((i+1)); echo $i >{work}/count; sleep 0.02; done"
        counter = running.commands.run(counting, opts=RunCommandOpts(background=True))
        running.files.write_file(f"{work}/kept", "before")
        paused.pause()
        ended.kill()
        expires = running.get_info().expires_at
        getattr(first, way)()

        second = servers.start()
        assert states(second) == {running.id: "Running", paused.id: "Paused"}
        assert running.get_info().expires_at == expires
        # The same handles work: address, token and the command are what they were.
        assert running.files.read_file(f"{work}/kept") == "before"
        assert running.commands.get_command_status(str(counter.id)).running
        with SandboxSync.resume(paused.id, second.sync_config) as resumed:
            assert resumed.commands.run("echo awake").text == "awake"
        running.files.delete_directories([work])
        kill_all(second)
        assert states(second) == {}
    second.terminate()
    servers.wait_until_nothing_is_left()


def test_a_sandbox_that_died_meanwhile_is_not_taken_for_alive(servers: Servers) -> None:
    first = servers.start()
    server_side = set(first.descendants())
    with SandboxSync.create("host", connection_config=first.sync_config) as sandbox:
        sandbox.commands.run("true")
        first.kill()
        for pid in set(first.descendants()) - server_side:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        second = servers.start()
        assert states(second).get(sandbox.id) != "Running"
        kill_all(second)
    second.terminate()
    servers.wait_until_nothing_is_left()


def test_killed_in_the_middle_of_creates_it_loses_none_and_leaks_none(
    servers: Servers, home: Path
) -> None:
    marks = Marks()
    first = servers.start()
    with SandboxSync.create("host", connection_config=first.sync_config) as sandbox:
        marks.notice(first.data_dir, first.descendants())
        sandbox.kill()
    first.terminate()
    first.wait_until_nothing_is_left()
    before = look(marks, home)

    second = servers.start()
    promised = asyncio.run(_create_until_killed(second, at_once=30, kill_after=5))
    third = servers.start()
    found = states(third)
    assert set(promised) <= set(found), "a sandbox that was promised is lost"
    for sandbox_id in promised:
        with SandboxSync.connect(sandbox_id, third.sync_config) as sandbox:
            assert sandbox.commands.run("echo here").text == "here"
    kill_all(third)
    third.terminate()
    servers.wait_until_nothing_is_left()
    assert look(marks, home) == before


async def _create_until_killed(server: Server, at_once: int, kill_after: int) -> list[str]:
    """Create sandboxes; once some are made the server is killed. Returns those that were made."""
    made: list[str] = []

    async def one(config: ConnectionConfig) -> None:
        with suppress(SandboxException):
            sandbox = await Sandbox.create("host", connection_config=config, skip_health_check=True)
            made.append(sandbox.id)
            if len(made) == kill_after:  # seen once: nothing is awaited since
                server.kill()
            await sandbox.close()

    await asyncio.gather(*(one(server.config) for _ in range(at_once)))
    return made
