# SPDX-License-Identifier: Apache-2.0
"""Our client against the real server: what a user does, from creating to killing."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from opensandbox import Sandbox, SandboxManager, SandboxManagerSync, SandboxSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models import SandboxFilter
from opensandbox.models.execd import RunCommandOpts
from tests.harness.server import API_KEY, Server
from tests.harness.wait import eventually

PORT_LINE = "Serving HTTP on"


@pytest.fixture(scope="module")
def sandbox(server: Server) -> Iterator[SandboxSync]:
    made = SandboxSync.create("host", connection_config=server.sync_config)
    yield made
    made.destroy()


@pytest.fixture
def manager(server: Server) -> Iterator[SandboxManagerSync]:
    with SandboxManagerSync.create(server.sync_config) as made:
        yield made


@pytest.fixture
def work(sandbox: SandboxSync) -> Iterator[str]:
    """An empty directory in the sandbox; the fake runtime's is on this machine."""
    directory = sandbox.commands.run("mktemp -d").text
    yield directory
    sandbox.files.delete_directories([directory])


def test_a_command_runs(sandbox: SandboxSync) -> None:
    execution = sandbox.commands.run("echo out; echo err >&2; exit 3")
    assert execution.text == "out"
    assert [message.text for message in execution.logs.stderr] == ["err"]
    assert execution.exit_code == 3


def test_python_runs(sandbox: SandboxSync) -> None:
    execution = sandbox.commands.run(["python3", "-c", "print(sum(range(10)))"])
    assert (execution.text, execution.exit_code) == ("45", 0)


def test_a_file_is_written_and_read(sandbox: SandboxSync, work: str) -> None:
    sandbox.files.write_file(f"{work}/deep/greeting", "grüße\n")
    assert sandbox.files.read_file(f"{work}/deep/greeting") == "grüße\n"
    assert sandbox.commands.run(["cat", f"{work}/deep/greeting"]).text == "grüße"


def test_a_megabyte_comes_back_as_it_went(sandbox: SandboxSync, work: str) -> None:
    content = bytes(range(256)) * 4096
    sandbox.files.write_file(f"{work}/large", content)
    assert sandbox.files.read_bytes(f"{work}/large") == content


def test_a_port_is_reached_through_the_proxy(sandbox: SandboxSync, work: str) -> None:
    sandbox.files.write_file(f"{work}/page.txt", "served from inside")
    command = ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]
    options = RunCommandOpts(background=True, working_directory=work)
    serving = sandbox.commands.run(command, opts=options)
    assert serving.id is not None
    logs = ""

    def is_listening() -> bool:
        nonlocal logs
        logs = sandbox.commands.get_background_command_logs(str(serving.id)).content
        return PORT_LINE in logs

    eventually(is_listening)
    port = int(logs.partition(" port ")[2].split()[0])
    endpoint = sandbox.get_endpoint(port)
    url = f"http://{endpoint.endpoint}/page.txt"
    answer = httpx.get(url, headers=endpoint.headers, trust_env=False)
    assert (answer.status_code, answer.text) == (200, "served from inside")
    assert httpx.get(f"{url}.missing", headers=endpoint.headers, trust_env=False).status_code == 404
    sandbox.commands.interrupt(str(serving.id))


def test_a_port_nobody_listens_on_is_a_bad_gateway(sandbox: SandboxSync) -> None:
    endpoint = sandbox.get_endpoint(9)
    answer = httpx.get(f"http://{endpoint.endpoint}/", headers=endpoint.headers, trust_env=False)
    assert answer.status_code == 502


def test_short_posts_come_back_whole(sandbox: SandboxSync) -> None:
    """Answers that begin before the request was read to its end are not cut off."""
    session = sandbox.commands.create_session()
    for number in range(100):
        assert sandbox.commands.run_in_session(session, f"echo {number}").text == str(number)
    sandbox.commands.delete_session(session)


def test_a_paused_sandbox_refuses_at_once_and_goes_on_where_it_was(server: Server) -> None:
    config = server.sync_config
    sandbox = SandboxSync.create("host", connection_config=config)
    try:
        counting = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"
        counter = sandbox.commands.run(counting, opts=RunCommandOpts(background=True))
        sandbox.pause()
        assert sandbox.get_info().status.state == "Paused"
        with pytest.raises(SandboxApiException) as refused:
            sandbox.commands.run("echo never")
        assert refused.value.status_code == 409
        sandbox.close()
        sandbox = SandboxSync.resume(sandbox.id, config)
        assert sandbox.get_info().status.state == "Running"
        assert sandbox.commands.run("echo again").text == "again"
        logs = sandbox.commands.get_background_command_logs
        before = logs(str(counter.id)).cursor or 0
        eventually(lambda: (logs(str(counter.id)).cursor or 0) > before)
    finally:
        sandbox.destroy()


def test_renewing_moves_the_end(sandbox: SandboxSync) -> None:
    wanted = datetime.now(UTC) + timedelta(hours=3)
    renewed = sandbox.renew(timedelta(hours=3)).expires_at
    assert abs(renewed - wanted) < timedelta(minutes=1)
    assert sandbox.get_info().expires_at == renewed


def test_lists_are_filtered_by_state_and_metadata(
    server: Server, manager: SandboxManagerSync, sandbox: SandboxSync
) -> None:
    made = [
        SandboxSync.create("host", connection_config=server.sync_config, metadata={"team": team})
        for team in ("red", "red", "blue")
    ]
    try:
        made[0].pause()

        def listed(**wanted: object) -> set[str]:
            page = manager.list_sandbox_infos(SandboxFilter.model_validate(wanted))
            return {info.id for info in page.sandbox_infos}

        assert listed() == {sandbox.id, *(one.id for one in made)}
        assert listed(metadata={"team": "red"}) == {made[0].id, made[1].id}
        assert listed(metadata={"team": "red"}, states=["Paused"]) == {made[0].id}
        assert listed(metadata={"team": "green"}) == set()
        first = manager.list_sandbox_infos(SandboxFilter(page_size=3, page=1))
        assert (len(first.sandbox_infos), first.pagination.total_items) == (3, 4)
        assert first.pagination.has_next_page
    finally:
        for one in made:
            one.destroy()


def test_a_killed_sandbox_is_gone(server: Server, manager: SandboxManagerSync) -> None:
    sandbox = SandboxSync.create("host", connection_config=server.sync_config)
    with sandbox:
        sandbox.kill()
        with pytest.raises(SandboxApiException) as unknown:
            manager.get_sandbox_info(sandbox.id)
        assert unknown.value.status_code == 404
        with pytest.raises(SandboxApiException) as unroutable:
            sandbox.commands.run("echo never")
        assert unroutable.value.status_code == 404


def test_an_entrypoint_that_ends_is_seen(server: Server, manager: SandboxManagerSync) -> None:
    entrypoint = ["sh", "-c", "exit 5"]
    with SandboxSync.create(
        "host",
        entrypoint=entrypoint,
        connection_config=server.sync_config,
        skip_health_check=True,
    ) as sandbox:
        ended = ("Terminated", "Failed")
        eventually(lambda: manager.get_sandbox_info(sandbox.id).status.state in ended)
        sandbox.kill()


def test_an_unknown_image_says_how_to_make_it(server: Server, manager: SandboxManagerSync) -> None:
    before = manager.list_sandbox_infos(SandboxFilter()).pagination.total_items
    with pytest.raises(SandboxApiException) as refused:
        SandboxSync.create("unknown-image", connection_config=server.sync_config)
    assert "unknown-image" in str(refused.value)
    assert manager.list_sandbox_infos(SandboxFilter()).pagination.total_items == before


def test_a_create_tells_the_endpoints_and_where_its_time_went(server: Server) -> None:
    body = {
        "image": {"uri": "host"},
        "entrypoint": ["tail", "-f", "/dev/null"],
        "timeout": 600,
        "resourceLimits": {"cpu": "1", "memory": "256Mi"},
    }
    headers = {"OPEN-SANDBOX-API-KEY": API_KEY}
    with httpx.Client(
        base_url=f"http://{server.domain}/v1", headers=headers, trust_env=False, timeout=30
    ) as client:
        answer = client.post("/sandboxes", json=body)
        assert answer.status_code == 202, answer.text
        made = answer.json()
        assert set(made["endpoints"]) == {"44772", "18080"}
        spans = {part.split(";")[0].strip() for part in answer.headers["Server-Timing"].split(",")}
        assert spans == {"total", "runtime", "store", "route"}
        execd = made["endpoints"]["44772"]
        ping = httpx.get(
            f"http://{execd['endpoint']}/ping", headers=execd["headers"], trust_env=False
        )
        assert ping.status_code == 200
        assert client.delete(f"/sandboxes/{made['id']}").status_code == 204


def test_nothing_is_said_without_a_key(server: Server, sandbox: SandboxSync) -> None:
    api = httpx.get(f"http://{server.domain}/v1/sandboxes", trust_env=False)
    assert api.status_code == 401
    execd = f"http://{server.domain}/sandboxes/{sandbox.id}/proxy/44772/ping"
    assert httpx.get(execd, trust_env=False).status_code == 401


def test_the_asynchronous_client_does_the_same(server: Server) -> None:
    async def use() -> None:
        config = server.config
        sandbox = await Sandbox.create("host", metadata={"kind": "async"}, connection_config=config)
        try:
            runs = await asyncio.gather(*(sandbox.commands.run(f"echo {i}") for i in range(10)))
            assert [run.text for run in runs] == [str(i) for i in range(10)]
            work = (await sandbox.commands.run("mktemp -d")).text
            await sandbox.files.write_file(f"{work}/file", "content")
            assert await sandbox.files.read_file(f"{work}/file") == "content"
            await sandbox.files.delete_directories([work])
            await sandbox.renew(timedelta(hours=1))
            async with await SandboxManager.create(config) as manager:
                wanted = SandboxFilter(metadata={"kind": "async"}, states=["Running"])
                page = await manager.list_sandbox_infos(wanted)
                assert [info.id for info in page.sandbox_infos] == [sandbox.id]
            await sandbox.pause()
            with pytest.raises(SandboxApiException):
                await sandbox.commands.run("echo never")
            async with await Sandbox.resume(sandbox.id, config) as again:
                assert (await again.commands.run("echo again")).text == "again"
        finally:
            await sandbox.destroy()

    asyncio.run(use())


def test_twenty_sandboxes_at_once_keep_apart(server: Server) -> None:
    async def one(number: int) -> str:
        sandbox = await Sandbox.create(
            "host", env={"NUMBER": str(number)}, connection_config=server.config
        )
        try:
            return (await sandbox.commands.run("echo $NUMBER")).text
        finally:
            await sandbox.destroy()

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(20)))

    assert asyncio.run(all_of_them()) == [str(number) for number in range(20)]
