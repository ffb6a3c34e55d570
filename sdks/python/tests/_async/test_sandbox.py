# SPDX-License-Identifier: Apache-2.0
"""Sandboxes are made, held, looked at and ended."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from opensandbox import Sandbox
from opensandbox._client_address import client_address
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxException,
    SandboxReadyTimeoutException,
)
from opensandbox.models.sandboxes import SandboxImageAuth, SandboxImageSpec, SandboxState
from tests.harness.execd import Daemon
from tests.harness.lifecycle import API_KEY, Answer, StandIn

pytestmark = pytest.mark.anyio

NO_TIME = timedelta(0)
SOON = timedelta(milliseconds=1)


def watched_config() -> tuple[list[httpx.Request], ConnectionConfig]:
    """Return a configuration and the list that its requests are noted in."""
    seen: list[httpx.Request] = []

    async def remember(request: httpx.Request) -> None:
        seen.append(request)

    return seen, ConnectionConfig(event_hooks={"request": [remember]})


async def test_create_sends_what_is_wanted_and_fills_in_the_defaults(standin: StandIn) -> None:
    auth = SandboxImageAuth(username="u", password="p")  # noqa: S106
    image = SandboxImageSpec("python:3.12", auth=auth)
    sandbox = await Sandbox.create(image, env={"A": "1"}, metadata={"team": "x"})
    await sandbox.close()
    [create] = standin.asked("POST", "/v1/sandboxes")
    assert create.json == {
        "image": {"uri": "python:3.12", "auth": {"username": "u", "password": "p"}},
        "timeout": 600,
        "resourceLimits": {"cpu": "1", "memory": "2Gi"},
        "env": {"A": "1"},
        "metadata": {"team": "x"},
        "entrypoint": ["tail", "-f", "/dev/null"],
        "secureAccess": False,
    }
    assert create.headers["OPEN-SANDBOX-API-KEY"] == API_KEY
    assert create.headers["User-Agent"].startswith("OpenSandbox-Python-SDK/")
    assert create.headers.get("OPEN-SANDBOX-CLIENT-IP") == client_address()


async def test_create_uses_the_endpoints_it_was_answered(standin: StandIn) -> None:
    sandbox = await Sandbox.create("image")
    assert (await sandbox.commands.run("echo hi")).text == "hi"
    await sandbox.close()
    assert [r.method for r in standin.requests] == ["POST"]


async def test_create_asks_for_the_endpoint_when_the_answer_has_none(standin: StandIn) -> None:
    standin.carries_endpoints = False
    sandbox = await Sandbox.create("image")
    assert (await sandbox.commands.run("echo hi")).text == "hi"
    await sandbox.close()
    [endpoint] = standin.asked("GET", "/endpoints/44772")
    assert endpoint.query == {"use_server_proxy": ["false"]}


async def test_a_caller_that_wants_the_server_in_between_asks_for_it(standin: StandIn) -> None:
    config = ConnectionConfig(use_server_proxy=True)
    sandbox = await Sandbox.create("image", connection_config=config)
    await sandbox.close()
    [endpoint] = standin.asked("GET", "/endpoints/44772")
    assert endpoint.query == {"use_server_proxy": ["true"]}


async def test_create_waits_for_an_address_that_comes_later(standin: StandIn) -> None:
    standin.carries_endpoints = False
    sandbox = await Sandbox.create("image", skip_health_check=True)
    code = "KUBERNETES::POD_IP_NOT_AVAILABLE"
    standin.answers += [Answer(404, {"code": code, "message": "not yet"})] * 2
    other = await Sandbox.connect(sandbox.id, health_check_polling_interval=SOON)
    assert await other.is_healthy()
    await sandbox.close()
    await other.close()


async def test_a_sandbox_that_never_answers_is_killed(standin: StandIn) -> None:
    standin.carries_endpoints = False
    standin.execd = {"endpoint": f"{standin.domain}/asleep"}
    with pytest.raises(SandboxReadyTimeoutException) as caught:
        await Sandbox.create("image", ready_timeout=NO_TIME)
    assert isinstance(caught.value.__cause__, SandboxException)  # what the last try said
    assert len(standin.asked("DELETE", "/sandboxes/sandbox-1")) == 1
    assert standin.sandboxes == {}


async def test_refused_credentials_end_the_wait_at_once(standin: StandIn) -> None:
    standin.carries_endpoints = False
    standin.execd["headers"] = {"X-EXECD-ACCESS-TOKEN": "wrong"}
    with pytest.raises(SandboxApiException) as caught:
        await Sandbox.create("image")
    assert caught.value.status_code == 401
    assert standin.sandboxes == {}


async def test_the_health_check_of_the_caller_decides(standin: StandIn) -> None:
    answers: list[bool | Exception] = [False, RuntimeError("not yet"), True]

    async def check(_: Sandbox) -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    sandbox = await Sandbox.create("image", health_check=check, health_check_polling_interval=SOON)
    assert answers == []
    assert standin.sandboxes
    await sandbox.close()


@pytest.mark.parametrize(
    ("carries_endpoints", "state", "pings"),
    [(True, "Running", 0), (True, "Terminated", 1), (False, "Running", 1)],
)
async def test_only_an_answer_that_says_that_it_is_usable_makes_a_ping_needless(
    standin: StandIn, execd: Daemon, carries_endpoints: bool, state: str, pings: int
) -> None:
    standin.carries_endpoints, standin.state = carries_endpoints, state
    seen, config = watched_config()
    sandbox = await Sandbox.create("image", connection_config=config)
    assert [r.url.path for r in seen if r.url.netloc.decode() == execd.address] == ["/ping"] * pings
    assert await sandbox.is_healthy()
    await sandbox.close()


async def test_the_key_stays_out_of_the_sandbox(standin: StandIn, execd: Daemon) -> None:
    seen, config = watched_config()
    sandbox = await Sandbox.create("image", connection_config=config)
    assert await sandbox.is_healthy()
    await sandbox.close()
    inside = [r for r in seen if r.url.netloc.decode() == execd.address]
    assert [r.url.path for r in inside] == ["/ping"]
    assert all("OPEN-SANDBOX-API-KEY" not in r.headers for r in inside)
    assert standin.requests


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"image": "a", "snapshot_id": "b"},
        {"image": " "},
        {"image": "a", "timeout": timedelta(seconds=59)},
        {"image": "a", "env": {"OPENSANDBOX_LIFECYCLE": "x"}},
    ],
)
async def test_a_request_that_cannot_work_is_refused_unsent(
    standin: StandIn, arguments: dict[str, object]
) -> None:
    with pytest.raises(InvalidArgumentException):
        await Sandbox.create(**arguments)  # type: ignore[arg-type]
    assert standin.requests == []


async def test_a_refusal_of_the_server_reaches_the_caller(standin: StandIn) -> None:
    refusal = {"code": "SANDBOX::INVALID_PARAMETER", "message": "no such cpu"}
    standin.answers.append(Answer(400, refusal))
    with pytest.raises(SandboxApiException) as caught:
        await Sandbox.create("image")
    assert caught.value.status_code == 400
    assert caught.value.error.code == "SANDBOX::INVALID_PARAMETER"
    assert caught.value.request_id == "r-1"
    assert "no such cpu" in str(caught.value)


async def test_a_sandbox_without_timeout_lives_until_killed(standin: StandIn) -> None:
    sandbox = await Sandbox.create("image", timeout=None)
    assert (await sandbox.get_info()).expires_at is None
    assert "timeout" not in standin.requests[0].json
    await sandbox.close()


async def test_connect_holds_a_sandbox_that_exists(sandbox: Sandbox) -> None:
    other = await Sandbox.connect(sandbox.id)
    assert other.id == sandbox.id
    assert (await other.commands.run("echo hi")).text == "hi"
    await other.close()


async def test_connect_to_a_sandbox_that_does_not_exist_says_so(standin: StandIn) -> None:
    assert standin.sandboxes == {}
    with pytest.raises(SandboxApiException) as caught:
        await Sandbox.connect("nobody")
    assert caught.value.status_code == 404


@pytest.mark.parametrize("sandbox_id", ["", " ", ".."])
async def test_an_id_that_is_none_is_refused_unsent(standin: StandIn, sandbox_id: str) -> None:
    with pytest.raises(InvalidArgumentException):
        await Sandbox.connect(sandbox_id)
    assert standin.requests == []


async def test_pause_and_resume_change_the_state(sandbox: Sandbox) -> None:
    await sandbox.pause()
    assert (await sandbox.get_info()).status.state == SandboxState.PAUSED
    resumed = await Sandbox.resume(sandbox.id)
    assert (await resumed.get_info()).status.state == SandboxState.RUNNING
    await resumed.close()


async def test_renew_counts_from_now(sandbox: Sandbox) -> None:
    renewed = await sandbox.renew(timedelta(hours=1))
    assert timedelta(minutes=59) < renewed.expires_at - datetime.now(UTC) <= timedelta(hours=1)
    assert (await sandbox.get_info()).expires_at == renewed.expires_at


async def test_metadata_is_merged_and_none_removes(sandbox: Sandbox) -> None:
    await sandbox.patch_metadata({"a": "1", "b": "2"})
    info = await sandbox.patch_metadata({"a": None})
    assert info.metadata == {"b": "2"}


async def test_an_endpoint_is_asked_for_once_until_the_sandbox_pauses(
    standin: StandIn, sandbox: Sandbox
) -> None:
    endpoint = await sandbox.get_endpoint(3000)
    assert endpoint.endpoint == f"{standin.domain}/{sandbox.id}/3000"
    assert await sandbox.get_endpoint(3000) == endpoint
    assert len(standin.asked("GET", "/endpoints/3000")) == 1
    await sandbox.pause()
    await sandbox.get_endpoint(3000)
    assert len(standin.asked("GET", "/endpoints/3000")) == 2


async def test_a_signed_endpoint_carries_its_end(standin: StandIn, sandbox: Sandbox) -> None:
    await sandbox.get_signed_endpoint(3000, 1900000000)
    [request] = standin.asked("GET", "/endpoints/3000")
    assert request.query["expires"] == ["1900000000"]


async def test_leaving_the_context_closes_and_does_not_kill(standin: StandIn) -> None:
    async with await Sandbox.create("image") as sandbox:
        assert await sandbox.is_healthy()
    assert sandbox.id in standin.sandboxes
    assert standin.asked("DELETE") == []


async def test_destroy_kills_and_closes(standin: StandIn) -> None:
    sandbox = await Sandbox.create("image")
    await sandbox.destroy()
    assert standin.sandboxes == {}
    with pytest.raises(RuntimeError):
        await sandbox.get_info()


async def test_a_sandbox_that_does_not_answer_is_not_healthy(standin: StandIn) -> None:
    standin.execd = {"endpoint": f"{standin.domain}/asleep"}
    sandbox = await Sandbox.create("image", skip_health_check=True)
    assert not await sandbox.is_healthy()
    with pytest.raises(SandboxReadyTimeoutException):
        await sandbox.check_ready(NO_TIME, SOON)
    await sandbox.close()


async def test_metrics_describe_the_sandbox(sandbox: Sandbox) -> None:
    metrics = await sandbox.get_metrics()
    assert metrics.cpu_count > 0
    assert 0 <= metrics.memory_used_in_mib <= metrics.memory_total_in_mib


async def test_diagnostics_come_by_scope(sandbox: Sandbox) -> None:
    logs = await sandbox.get_diagnostic_logs("container")
    events = await sandbox.get_diagnostic_events("runtime")
    assert (logs.kind, logs.scope, logs.content) == ("logs", "container", "hello\n")
    assert (events.kind, events.scope) == ("events", "runtime")
