# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_creation.py by scripts/unasync.py; change it there.
"""What goes with a create besides the request: a key, a report, an address, a trace."""

import re

import pytest

from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException, SandboxConnectionException
from opensandbox.transport import RetryPolicy
from tests.harness.lifecycle import Answer, StandIn


def test_a_create_is_repeated_with_the_same_key_when_its_answer_is_lost(
    standin: StandIn,
) -> None:
    standin.answers.append(Answer(0, is_cut=True))
    with SandboxSync.create("image"):
        pass
    keys = [request.headers["Idempotency-Key"] for request in standin.asked("POST", "/sandboxes")]
    assert len(keys) == 2
    assert keys[0] == keys[1]
    with SandboxSync.create("image"):
        pass
    assert standin.asked("POST", "/sandboxes")[-1].headers["Idempotency-Key"] != keys[0]


def test_a_create_that_is_refused_is_not_repeated(standin: StandIn) -> None:
    standin.answers.append(Answer(503, {"code": "SANDBOX::BUSY", "message": "later"}))
    with pytest.raises(SandboxApiException):
        SandboxSync.create("image")
    assert len(standin.asked("POST", "/sandboxes")) == 1


def test_without_retries_a_lost_answer_is_an_exception(standin: StandIn) -> None:
    standin.answers.append(Answer(0, is_cut=True))
    config = ConnectionConfigSync(retry_policy=RetryPolicy.disabled())
    with pytest.raises(SandboxConnectionException):
        SandboxSync.create("image", connection_config=config)
    assert len(standin.asked("POST", "/sandboxes")) == 1


def test_the_time_of_a_create_is_reported_once(
    standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENSANDBOX_DISABLE_METRICS")
    sandbox = SandboxSync.create("image")
    sandbox.commands.run("true")  # meanwhile the report is sent
    while not standin.asked("POST", "/metrics/events"):
        sandbox.get_info()
    (report,) = standin.asked("POST", "/metrics/events")
    assert report.json["eventType"] == "sandbox.create"
    assert report.json["success"] is True
    assert report.json["sandboxId"] == sandbox.id
    assert report.json["image"] == "image"
    assert report.json["createDurationMs"] > 0
    sandbox.close()


def test_reports_can_be_switched_off(
    standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENSANDBOX_DISABLE_METRICS")
    config = ConnectionConfigSync(disable_metrics=True)
    with SandboxSync.create("image", connection_config=config) as sandbox:
        sandbox.get_info()
    assert standin.asked("POST", "/metrics/events") == []


def test_a_trace_is_sent_when_asked_for(standin: StandIn) -> None:
    config = ConnectionConfigSync(enable_tracing=True)
    with SandboxSync.create("image", connection_config=config) as sandbox:
        trace = (sandbox.commands.run("echo $TRACEPARENT")).text
    pattern = r"00-[0-9a-f]{32}-[0-9a-f]{16}-01"
    assert re.fullmatch(pattern, trace)
    assert re.fullmatch(pattern, standin.asked("POST", "/sandboxes")[0].headers["traceparent"])
    with SandboxSync.create("image"):
        pass
    assert "traceparent" not in standin.asked("POST", "/sandboxes")[-1].headers
