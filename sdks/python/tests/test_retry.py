# SPDX-License-Identifier: Apache-2.0
"""When a request is sent again and after how long, without sending any."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from opensandbox._retry import (
    MAX_RETRY_AFTER,
    Failure,
    JitterMode,
    RetryCause,
    Retrying,
    RetryPolicy,
    parse_retry_after,
)

SECOND = timedelta(seconds=1)
ZERO = timedelta(0)


def refusal(status: int) -> Failure:
    return Failure(RetryCause.for_status(status), status_code=status)


BUSY = refusal(503)


def waits(policy: RetryPolicy, method: str, failure: Failure) -> list[timedelta]:
    """Return every wait a policy grants to a request that always fails the same way."""
    retrying = Retrying(policy, method, random.Random(1))
    granted = []
    while (wait := retrying.next_wait(failure, ZERO)) is not None:
        granted.append(wait)
    return granted


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("status", [429, 502, 503])
def test_what_repeats_safely_is_tried_three_times_more(method: str, status: int) -> None:
    assert (
        len(
            waits(RetryPolicy(), method, Failure(RetryCause.for_status(status), status_code=status))
        )
        == 3
    )


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_what_does_not_repeat_safely_is_tried_again_only_when_nothing_was_sent(method: str) -> None:
    assert waits(RetryPolicy(), method, BUSY) == []
    assert waits(RetryPolicy(), method, Failure(RetryCause.OPAQUE_TRANSPORT)) == []
    assert len(waits(RetryPolicy(), method, Failure(RetryCause.PRE_SEND))) == 3


def test_nobody_is_waited_for_long_on_this_machine() -> None:
    absent = Failure(RetryCause.PRE_SEND, is_nobody_here=True)
    assert waits(RetryPolicy(), "GET", absent) == [SECOND / 4] * 3
    patient = RetryPolicy(jitter=JitterMode.NONE, max_backoff_here=SECOND)
    assert waits(patient, "GET", absent) == [SECOND / 2, SECOND, SECOND]


@pytest.mark.parametrize("status", [400, 404, 409, 500, 504])
def test_other_answers_are_final(status: int) -> None:
    assert (
        waits(RetryPolicy(), "GET", Failure(RetryCause.for_status(status), status_code=status))
        == []
    )


def test_a_caller_may_ask_for_posts_to_be_repeated() -> None:
    policy = RetryPolicy(retryable_status_codes_non_idempotent=frozenset({503}))
    assert len(waits(policy, "POST", BUSY)) == 3


def test_without_jitter_waits_double_up_to_their_ceiling() -> None:
    policy = RetryPolicy(
        max_retries=5, initial_backoff=SECOND, max_backoff=6 * SECOND, jitter=JitterMode.NONE
    )
    assert waits(policy, "GET", BUSY) == [SECOND * n for n in (1, 2, 4, 6, 6)]


@pytest.mark.parametrize("jitter", [JitterMode.FULL, JitterMode.DECORRELATED])
def test_jitter_stays_within_bounds(jitter: JitterMode) -> None:
    policy = RetryPolicy(
        max_retries=200, initial_backoff=SECOND, max_backoff=6 * SECOND, jitter=jitter
    )
    granted = waits(policy, "GET", BUSY)
    lowest = SECOND if jitter is JitterMode.DECORRELATED else ZERO
    assert all(lowest <= wait <= 6 * SECOND for wait in granted)
    assert len(set(granted)) > 100


def test_the_server_says_how_long_but_not_forever() -> None:
    soon = Failure(RetryCause.for_status(429), status_code=429, retry_after=7 * SECOND)
    late = Failure(RetryCause.for_status(429), status_code=429, retry_after=timedelta(days=1))
    assert waits(RetryPolicy(), "GET", soon) == [7 * SECOND] * 3
    assert waits(RetryPolicy(), "GET", late) == [MAX_RETRY_AFTER] * 3


def test_no_retry_starts_after_the_deadline() -> None:
    policy = RetryPolicy(
        initial_backoff=SECOND, jitter=JitterMode.NONE, overall_deadline=10 * SECOND
    )
    retrying = Retrying(policy, "GET", random.Random(1))
    assert retrying.next_wait(BUSY, 9 * SECOND) == SECOND
    assert retrying.next_wait(BUSY, 9 * SECOND) is None


def test_a_disabled_policy_never_tries_again() -> None:
    assert waits(RetryPolicy.disabled(), "GET", Failure(RetryCause.PRE_SEND)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_retries": -1},
        {"initial_backoff": -SECOND},
        {"max_backoff": -SECOND},
        {"backoff_multiplier": 0.5},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        RetryPolicy(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-3", None),
        ("0", ZERO),
        (" 5 ", 5 * SECOND),
        ("9" * 40, timedelta(seconds=10**9)),
        ("Tue, 01 Jan 2030 00:00:30 GMT", 30 * SECOND),
        ("Tue, 01 Jan 2030 00:00:30 -0000", 30 * SECOND),
        ("Mon, 31 Dec 2029 00:00:00 GMT", ZERO),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(
    value: str | None, expected: timedelta | None
) -> None:
    assert parse_retry_after(value, datetime(2030, 1, 1, tzinfo=UTC)) == expected
