# SPDX-License-Identifier: Apache-2.0
"""What goes with a create besides the request: a key, a report, an address, a trace."""

import re

import pytest

from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import SandboxApiException, SandboxConnectionException
from opensandbox.transport import RetryPolicy
from tests.harness.lifecycle import Answer, StandIn

pytestmark = pytest.mark.anyio


async def test_a_create_is_repeated_with_the_same_key_when_its_answer_is_lost(
    standin: StandIn,
) -> None:
    standin.answers.append(Answer(0, is_cut=True))
    async with await Sandbox.create("image"):
        pass
    keys = [request.headers["Idempotency-Key"] for request in standin.asked("POST", "/sandboxes")]
    assert len(keys) == 2
    assert keys[0] == keys[1]
    async with await Sandbox.create("image"):
        pass
    assert standin.asked("POST", "/sandboxes")[-1].headers["Idempotency-Key"] != keys[0]


async def test_a_create_that_is_refused_is_not_repeated(standin: StandIn) -> None:
    standin.answers.append(Answer(503, {"code": "SANDBOX::BUSY", "message": "later"}))
    with pytest.raises(SandboxApiException):
        await Sandbox.create("image")
    assert len(standin.asked("POST", "/sandboxes")) == 1


async def test_without_retries_a_lost_answer_is_an_exception(standin: StandIn) -> None:
    standin.answers.append(Answer(0, is_cut=True))
    config = ConnectionConfig(retry_policy=RetryPolicy.disabled())
    with pytest.raises(SandboxConnectionException):
        await Sandbox.create("image", connection_config=config)
    assert len(standin.asked("POST", "/sandboxes")) == 1


async def test_the_time_of_a_create_is_reported_once(
    standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENSANDBOX_DISABLE_METRICS")
    sandbox = await Sandbox.create("image")
    await sandbox.commands.run("true")  # meanwhile the report is sent
    while not standin.asked("POST", "/metrics/events"):
        await sandbox.get_info()
    (report,) = standin.asked("POST", "/metrics/events")
    assert report.json["eventType"] == "sandbox.create"
    assert report.json["success"] is True
    assert report.json["sandboxId"] == sandbox.id
    assert report.json["image"] == "image"
    assert report.json["createDurationMs"] > 0
    await sandbox.close()


async def test_reports_can_be_switched_off(
    standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENSANDBOX_DISABLE_METRICS")
    config = ConnectionConfig(disable_metrics=True)
    async with await Sandbox.create("image", connection_config=config) as sandbox:
        await sandbox.get_info()
    assert standin.asked("POST", "/metrics/events") == []


async def test_a_trace_is_sent_when_asked_for(standin: StandIn) -> None:
    config = ConnectionConfig(enable_tracing=True)
    async with await Sandbox.create("image", connection_config=config) as sandbox:
        trace = (await sandbox.commands.run("echo $TRACEPARENT")).text
    pattern = r"00-[0-9a-f]{32}-[0-9a-f]{16}-01"
    assert re.fullmatch(pattern, trace)
    assert re.fullmatch(pattern, standin.asked("POST", "/sandboxes")[0].headers["traceparent"])
    async with await Sandbox.create("image"):
        pass
    assert "traceparent" not in standin.asked("POST", "/sandboxes")[-1].headers
