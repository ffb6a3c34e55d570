# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The types are those of another package of the same name.
"""What a user of the published client does with sandboxes. Runs in the client's own environment.

    python published_lifecycle.py DOMAIN KEY

Every function named scenario_… makes its own sandboxes and ends them. The outcome of each is
printed as one line of JSON: its name, and what went wrong or null.
"""

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import httpx

from opensandbox import Sandbox, SandboxManager, SandboxManagerSync, SandboxSync
from opensandbox.config import ConnectionConfig
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.sandboxes import SandboxFilter
from tests.harness.wait import eventually

DOMAIN, KEY = sys.argv[1], sys.argv[2]
IMAGE = "host"


def config(**changes: object) -> ConnectionConfigSync:
    return ConnectionConfigSync(domain=DOMAIN, api_key=KEY, **changes)


@contextmanager
def made(**wanted: object) -> Iterator[SandboxSync]:
    sandbox = SandboxSync.create(IMAGE, connection_config=config(), **wanted)
    with sandbox:
        try:
            yield sandbox
        finally:
            sandbox.kill()


def status_of_failure(call: Callable[[], object]) -> int | None:
    try:
        call()
    except SandboxApiException as error:
        status: int | None = error.status_code
        return status
    return None


def scenario_create_use_and_kill() -> None:
    with made(env={"GREETING": "hello"}, metadata={"team": "red"}) as sandbox:
        assert sandbox.is_healthy()
        assert sandbox.commands.run("echo $GREETING").text == "hello"
        info = sandbox.get_info()
        assert info.status.state == "Running", info
        assert info.metadata == {"team": "red"}, info
        assert info.image.image == IMAGE, info
        work = sandbox.commands.run("mktemp -d").text
        sandbox.files.write_file(f"{work}/file", "content")
        assert sandbox.files.read_file(f"{work}/file") == "content"
        sandbox.files.delete_directories([work])
    with SandboxManagerSync.create(config()) as manager:
        assert status_of_failure(lambda: manager.get_sandbox_info(sandbox.id)) == 404


def scenario_list_with_filters_and_pages() -> None:
    with (
        SandboxManagerSync.create(config()) as manager,
        made(metadata={"list": "a"}) as first,
        made(metadata={"list": "a"}) as second,
        made(metadata={"list": "b"}) as third,
    ):

        def listed(**wanted: object) -> list[str]:
            page = manager.list_sandbox_infos(SandboxFilter(**wanted))
            return [info.id for info in page.sandbox_infos]

        assert set(listed(metadata={"list": "a"})) == {first.id, second.id}
        assert {first.id, second.id, third.id} <= set(listed(states=["Running"], page_size=200))
        page = manager.list_sandbox_infos(SandboxFilter(metadata={"list": "a"}, page_size=1))
        assert page.pagination.total_items == 2, page
        assert page.pagination.has_next_page, page
        pages = [listed(metadata={"list": "a"}, page_size=1, page=number) for number in (1, 2)]
        assert sorted(pages[0] + pages[1]) == sorted([first.id, second.id])


def scenario_pause_and_resume() -> None:
    with made() as sandbox:
        sleeper = sandbox.commands.run("sleep 1000", opts=RunCommandOpts(background=True))
        sandbox.pause()
        assert sandbox.get_info().status.state == "Paused"
        assert status_of_failure(lambda: sandbox.commands.run("true")) == 409
        with SandboxSync.resume(sandbox.id, config()) as resumed:
            assert resumed.get_info().status.state == "Running"
            assert resumed.commands.get_command_status(sleeper.id).running
            assert resumed.commands.run("echo again").text == "again"


def scenario_pausing_twice_is_a_conflict() -> None:
    with SandboxManagerSync.create(config()) as manager, made() as sandbox:
        manager.pause_sandbox(sandbox.id)
        assert status_of_failure(lambda: manager.pause_sandbox(sandbox.id)) == 409
        manager.resume_sandbox(sandbox.id)
        assert status_of_failure(lambda: manager.resume_sandbox(sandbox.id)) == 409


def scenario_renew() -> None:
    with made(timeout=timedelta(minutes=5)) as sandbox:
        renewed = sandbox.renew(timedelta(hours=2)).expires_at
        assert abs(renewed - datetime.now(UTC) - timedelta(hours=2)) < timedelta(minutes=1)
        assert sandbox.get_info().expires_at == renewed


def scenario_change_metadata() -> None:
    with made(metadata={"keep": "1", "drop": "1"}) as sandbox:
        info = sandbox.patch_metadata({"drop": None, "add": "2"})
        assert info.metadata == {"keep": "1", "add": "2"}, info
        assert sandbox.get_info().metadata == info.metadata


def scenario_connect_to_a_sandbox() -> None:
    with made() as sandbox, SandboxSync.connect(sandbox.id, config()) as again:
        assert again.commands.run("echo again").text == "again"
        assert again.get_metrics().memory_total_in_mib > 0


def scenario_through_the_server() -> None:
    with made() as sandbox:
        proxied = config(use_server_proxy=True)
        with SandboxSync.connect(sandbox.id, proxied) as again:
            assert again.commands.run("echo proxied").text == "proxied"


def scenario_reach_a_port() -> None:
    with made() as sandbox:
        command = ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]
        serving = sandbox.commands.run(command, opts=RunCommandOpts(background=True))
        logs: list[str] = []

        def is_listening() -> bool:
            logs.append(sandbox.commands.get_background_command_logs(serving.id).content)
            return " port " in logs[-1]

        eventually(is_listening)
        endpoint = sandbox.get_endpoint(int(logs[-1].partition(" port ")[2].split()[0]))
        answer = httpx.get(f"http://{endpoint.endpoint}/", headers=endpoint.headers)
        assert answer.status_code == 200, answer
        sandbox.commands.interrupt(serving.id)


def scenario_diagnostics() -> None:
    with made() as sandbox:
        assert sandbox.get_diagnostic_logs("container") is not None
        assert sandbox.get_diagnostic_events("runtime") is not None


def scenario_errors_are_api_errors() -> None:
    unknown = "00000000-0000-4000-8000-000000000000"
    with SandboxManagerSync.create(config()) as manager:
        assert status_of_failure(lambda: manager.get_sandbox_info(unknown)) == 404
        assert status_of_failure(lambda: manager.kill_sandbox(unknown)) == 404
    wrong = ConnectionConfigSync(domain=DOMAIN, api_key="wrong")
    with SandboxManagerSync.create(wrong) as stranger:
        assert status_of_failure(lambda: stranger.list_sandbox_infos(SandboxFilter())) == 401


def scenario_the_async_client() -> None:
    async def use() -> None:
        asynchronous = ConnectionConfig(domain=DOMAIN, api_key=KEY)
        sandbox = await Sandbox.create(IMAGE, connection_config=asynchronous)
        async with sandbox:
            try:
                runs = await asyncio.gather(*(sandbox.commands.run(f"echo {i}") for i in range(5)))
                assert [run.text for run in runs] == list("01234")
                await sandbox.renew(timedelta(hours=1))
                await sandbox.pause()
                async with await Sandbox.resume(sandbox.id, asynchronous) as resumed:
                    assert (await resumed.commands.run("echo again")).text == "again"
                async with await SandboxManager.create(asynchronous) as manager:
                    page = await manager.list_sandbox_infos(SandboxFilter(states=["Running"]))
                    assert sandbox.id in [info.id for info in page.sandbox_infos]
            finally:
                await sandbox.kill()

    asyncio.run(use())


def main() -> None:
    """Run every scenario."""
    logging.disable(logging.CRITICAL)  # the client logs the errors that scenarios provoke
    for name, scenario in list(globals().items()):
        if not name.startswith("scenario_"):
            continue
        failure = None
        try:
            scenario()
        except Exception:  # noqa: BLE001 - whatever it is, it is this scenario's outcome
            failure = traceback.format_exc()
        print(json.dumps({"name": name, "failure": failure}), flush=True)


if __name__ == "__main__":
    main()
