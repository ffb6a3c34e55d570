# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_transport.py by scripts/unasync.py; change it there.
"""Requests are tried again, failures are told apart, and secrets go to nobody else."""

import socket
from datetime import timedelta

import httpx
import pytest

from opensandbox import SandboxManagerSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import (
    SandboxApiException,
    SandboxConnectionException,
    SandboxInternalException,
    SandboxRateLimitException,
    SandboxTimeoutException,
)
from opensandbox.models.sandboxes import SandboxFilter
from opensandbox.transport import JitterMode, RetryCause, RetryEvent, RetryPolicy
from tests.harness.lifecycle import API_KEY, Answer, StandIn, run_standin

AT_ONCE = RetryPolicy(initial_backoff=timedelta(0), jitter=JitterMode.NONE)
BUSY = Answer(503, {"code": "SANDBOX_LIST_UNAVAILABLE", "message": "busy"})


def list_with(config: ConnectionConfigSync) -> None:
    with SandboxManagerSync.create(config) as manager:
        manager.list_sandbox_infos(SandboxFilter())


def test_reading_is_tried_again_until_it_works(standin: StandIn) -> None:
    events: list[RetryEvent] = []
    policy = RetryPolicy(
        initial_backoff=timedelta(0), jitter=JitterMode.NONE, on_retry=events.append
    )
    standin.answers += [BUSY, Answer(0, is_cut=True), Answer(502)]
    list_with(ConnectionConfigSync(retry_policy=policy))
    assert len(standin.requests) == 4
    assert [event.cause for event in events] == [
        RetryCause.STATUS_503,
        RetryCause.UNEXPECTED_EOF,
        RetryCause.STATUS_502,
    ]
    assert [event.status_code for event in events] == [503, None, 502]
    assert [event.attempt for event in events] == [2, 3, 4]
    assert [event.retries_used for event in events] == [0, 1, 2]
    assert events[0].request_id == "r-1"


def test_an_attempt_can_be_bounded(standin: StandIn) -> None:
    events: list[RetryEvent] = []
    policy = RetryPolicy(
        max_retries=1,
        initial_backoff=timedelta(0),
        per_attempt_timeout=timedelta(milliseconds=50),
        on_retry=events.append,
    )
    standin.silent.set()
    try:
        with pytest.raises(SandboxTimeoutException) as caught:
            list_with(ConnectionConfigSync(retry_policy=policy))
    finally:
        standin.silent.clear()
    assert [event.cause for event in events] == [RetryCause.READ_TIMEOUT]
    assert isinstance(cause := caught.value.__cause__, httpx.ReadTimeout)
    assert cause.request.extensions["timeout"]["read"] == 0.05


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_that_does_not_listen_here_is_soon_given_up(host: str) -> None:
    events: list[RetryEvent] = []
    policy = RetryPolicy(on_retry=events.append, max_backoff_here=timedelta(milliseconds=1))
    with socket.socket() as taken:  # bound and not listening: nobody answers here
        taken.bind(("127.0.0.1", 0))
        domain = f"{host}:{taken.getsockname()[1]}"
        with pytest.raises(SandboxConnectionException):
            list_with(ConnectionConfigSync(domain=domain, retry_policy=policy))
    assert [event.cause for event in events] == [RetryCause.PRE_SEND] * 3
    assert [event.backoff for event in events] == [policy.max_backoff_here] * 3


def test_retries_have_an_end(standin: StandIn) -> None:
    standin.answers += [BUSY] * 9
    with pytest.raises(SandboxApiException) as caught:
        list_with(ConnectionConfigSync(retry_policy=AT_ONCE))
    assert len(standin.requests) == 4
    assert caught.value.status_code == 503
    assert caught.value.is_retryable


def test_a_disabled_policy_tries_once(standin: StandIn) -> None:
    standin.answers += [BUSY] * 2
    with pytest.raises(SandboxApiException):
        list_with(ConnectionConfigSync(retry_policy=RetryPolicy.disabled()))
    assert len(standin.requests) == 1


def test_what_changes_something_is_sent_once(standin: StandIn) -> None:
    standin.answers += [BUSY, Answer(0, is_cut=True)]
    with SandboxManagerSync.create(ConnectionConfigSync(retry_policy=AT_ONCE)) as manager:
        with pytest.raises(SandboxApiException):
            manager.pause_sandbox("a")
        with pytest.raises(SandboxConnectionException):
            manager.pause_sandbox("a")
    assert len(standin.requests) == 2


def test_what_is_gone_after_a_lost_answer_was_deleted_by_that_request(
    standin: StandIn,
) -> None:
    missing = Answer(404, {"code": "SANDBOX::NOT_FOUND", "message": "no"})
    standin.answers += [Answer(0, is_cut=True), missing, BUSY, missing, missing]
    with SandboxManagerSync.create(ConnectionConfigSync(retry_policy=AT_ONCE)) as manager:
        manager.kill_sandbox("a")
        assert len(standin.requests) == 2
        for _ in range(2):  # refused, or asked once: it was not there
            with pytest.raises(SandboxApiException) as caught:
                manager.kill_sandbox("a")
            assert caught.value.status_code == 404


def test_a_server_that_is_not_there_is_a_connection_failure(standin: StandIn) -> None:
    events: list[RetryEvent] = []
    policy = RetryPolicy(
        initial_backoff=timedelta(0), jitter=JitterMode.NONE, on_retry=events.append
    )
    with run_standin() as gone:
        config = ConnectionConfigSync(domain=gone.domain, retry_policy=policy)
    with SandboxManagerSync.create(config) as manager:
        with pytest.raises(SandboxConnectionException) as caught:
            manager.pause_sandbox("a")
    assert [event.cause for event in events] == [RetryCause.PRE_SEND] * 3
    assert isinstance(caught.value.__cause__, httpx.ConnectError)
    assert standin.requests == []


def test_a_rate_limit_says_when_to_come_back(standin: StandIn) -> None:
    body = {"code": "KUBERNETES::POOL_CAPACITY_EXHAUSTED", "message": "later"}
    standin.answers.append(Answer(429, body, {"Retry-After": "7"}))
    with pytest.raises(SandboxRateLimitException) as caught:
        list_with(ConnectionConfigSync(retry_policy=RetryPolicy.disabled()))
    assert caught.value.retry_after == timedelta(seconds=7)
    assert caught.value.error.code == "KUBERNETES::POOL_CAPACITY_EXHAUSTED"


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (Answer(418, {"code": "A::B", "message": "m"}), "A::B", "m"),
        (Answer(400, {"detail": {"code": "A::B", "message": "m"}}), "A::B", "m"),
        (
            Answer(422, {"detail": [{"loc": ["body", "timeout"], "msg": "too small"}]}),
            "UNEXPECTED_RESPONSE",
            "body.timeout: too small",
        ),
        (Answer(401, {"error": "no token"}), "UNEXPECTED_RESPONSE", "no token"),
        (Answer(502, raw=b"<html>bad gateway"), "UNEXPECTED_RESPONSE", "<html>bad gateway"),
        (Answer(500), "UNEXPECTED_RESPONSE", "the server answered 500"),
        (Answer(302, headers={"Location": "/"}), "UNEXPECTED_RESPONSE", "the server answered 302"),
    ],
)
def test_every_error_answer_becomes_an_api_exception(
    standin: StandIn, answer: Answer, code: str, message: str
) -> None:
    standin.answers.append(answer)
    with pytest.raises(SandboxApiException) as caught:
        list_with(ConnectionConfigSync(retry_policy=RetryPolicy.disabled()))
    assert caught.value.status_code == answer.status
    assert (caught.value.error.code, caught.value.error.message) == (code, message)
    assert caught.value.request_id == "r-1"


def test_an_answer_that_cannot_be_read_is_told(standin: StandIn) -> None:
    standin.answers.append(Answer(200, {"items": "none"}))
    with pytest.raises(SandboxInternalException) as caught:
        list_with(ConnectionConfigSync())
    assert caught.value.error.code == "UNEXPECTED_RESPONSE"
    assert caught.value.request_id == "r-1"


def test_a_silent_server_is_a_timeout(standin: StandIn) -> None:
    standin.silent.set()
    config = ConnectionConfigSync(
        request_timeout=timedelta(milliseconds=50), retry_policy=RetryPolicy.disabled()
    )
    with pytest.raises(SandboxTimeoutException):
        list_with(config)
    standin.silent.clear()


def test_a_redirect_elsewhere_takes_no_secrets_along(standin: StandIn) -> None:
    with run_standin() as stranger:
        location = {"Location": f"http://{stranger.domain}/v1/sandboxes"}
        standin.answers.append(Answer(307, headers=location))
        config = ConnectionConfigSync(follow_redirects=True, headers={"X-Mine": "secret"})
        with pytest.raises(SandboxApiException):
            list_with(config)
        assert API_KEY in str(standin.requests[0].headers)
        assert API_KEY not in str(stranger.requests[0].headers)
        assert "secret" not in str(stranger.requests[0].headers)


def test_a_redirect_at_home_keeps_them(standin: StandIn) -> None:
    standin.answers.append(Answer(307, headers={"Location": "/v1/sandboxes"}))
    list_with(ConnectionConfigSync(follow_redirects=True))
    assert len(standin.requests) == 2


def test_a_transport_of_the_caller_stays_open(standin: StandIn) -> None:
    transport = httpx.HTTPTransport()
    config = ConnectionConfigSync(transport=transport)
    list_with(config)
    list_with(config)
    transport.close()
    assert len(standin.requests) == 2


def test_the_key_given_wins_over_the_environment(standin: StandIn) -> None:
    with pytest.raises(SandboxApiException) as caught:
        list_with(ConnectionConfigSync(api_key="another"))
    assert caught.value.error.code == "INVALID_API_KEY"
    assert standin.requests[0].headers["OPEN-SANDBOX-API-KEY"] == "another"
