# SPDX-License-Identifier: Apache-2.0
"""When to send a request again, and how long to wait before. Knows no network."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from ipaddress import ip_address

IDEMPOTENCY_KEY = "Idempotency-Key"
"""The header that lets a request be repeated although its method does not."""

IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})

# A server that asks for more patience than this is not waited for any longer.
MAX_RETRY_AFTER = timedelta(seconds=60)


class JitterMode(StrEnum):
    """How waits are spread, so that many clients do not come back at once."""

    NONE = "none"
    FULL = "full"
    DECORRELATED = "decorrelated"


class RetryCause(StrEnum):
    """What kind of failure leads to a retry."""

    PRE_SEND = "pre_send"
    OPAQUE_TRANSPORT = "opaque_transport"
    READ_TIMEOUT = "read_timeout"
    WRITE_TIMEOUT = "write_timeout"
    UNEXPECTED_EOF = "unexpected_eof"
    STATUS_408 = "status_408"
    STATUS_425 = "status_425"
    STATUS_429 = "status_429"
    STATUS_500 = "status_500"
    STATUS_502 = "status_502"
    STATUS_503 = "status_503"
    STATUS_504 = "status_504"
    STATUS_OTHER = "status_other"

    @classmethod
    def for_status(cls, status_code: int) -> "RetryCause":
        """Return the cause that an answer of this status is."""
        name = f"status_{status_code}"
        return cls(name) if name in cls._value2member_map_ else cls.STATUS_OTHER


@dataclass(frozen=True)
class RetryEvent:
    """What ``RetryPolicy.on_retry`` is told before each wait."""

    attempt: int
    """The attempt to come; the first retry is attempt 2."""
    retries_used: int
    """How many retries there were before this one."""
    method: str
    url: str
    cause: RetryCause
    status_code: int | None
    backoff: timedelta
    request_id: str | None
    exception: BaseException | None


@dataclass(frozen=True)
class RetryPolicy:
    """Which failures are tried again. Event streams never are, nor uploads once they began."""

    max_retries: int = 3
    initial_backoff: timedelta = timedelta(milliseconds=500)
    max_backoff: timedelta = timedelta(seconds=30)
    backoff_multiplier: float = 2.0
    jitter: JitterMode = JitterMode.DECORRELATED
    retryable_status_codes_idempotent: frozenset[int] = frozenset({429, 502, 503})
    retryable_status_codes_non_idempotent: frozenset[int] = frozenset()
    per_attempt_timeout: timedelta | None = None
    """Bounds each step of an attempt: connecting, sending, waiting for the answer."""
    overall_deadline: timedelta | None = None
    """No retry starts later than this after the first attempt."""
    max_backoff_here: timedelta = timedelta(milliseconds=250)
    """The longest wait for a server of this machine that does not listen."""
    on_retry: Callable[[RetryEvent], None] | None = None

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise ValueError(f"max_retries must not be negative: {self.max_retries}")
        if min(self.initial_backoff, self.max_backoff, self.max_backoff_here) < timedelta(0):
            raise ValueError("backoffs must not be negative")
        if self.per_attempt_timeout is not None and self.per_attempt_timeout <= timedelta(0):
            raise ValueError("per_attempt_timeout must be positive")
        if self.backoff_multiplier < 1:
            raise ValueError(f"backoff_multiplier must be at least 1: {self.backoff_multiplier}")

    @classmethod
    def disabled(cls) -> "RetryPolicy":
        """Never try again."""
        return cls(max_retries=0)

    def retries_status(self, method: str, status_code: int) -> bool:
        """Whether an answer of this status is worth another attempt."""
        if method in IDEMPOTENT_METHODS:
            return status_code in self.retryable_status_codes_idempotent
        return status_code in self.retryable_status_codes_non_idempotent


@dataclass(frozen=True)
class Failure:
    """How one attempt failed."""

    cause: RetryCause
    status_code: int | None = None
    retry_after: timedelta | None = None
    request_id: str | None = None
    exception: BaseException | None = None
    is_nobody_here: bool = False
    """The connection was to this machine, where nobody listens: no network may yet recover."""


class Retrying:
    """The attempts of one request under a policy."""

    def __init__(
        self,
        policy: RetryPolicy,
        method: str,
        spread: random.Random,
        *,
        has_key: bool = False,
    ) -> None:
        self._policy = policy
        self._method = method
        self._is_repeatable = has_key or method in IDEMPOTENT_METHODS
        self._spread = spread
        self._retries = 0
        self._may_be_done = False
        self._last_wait = timedelta(0)
        self._ceiling = policy.initial_backoff

    def next_wait(self, failure: Failure, elapsed: timedelta) -> timedelta | None:
        """Return how long to wait before the next attempt; None is to give up."""
        if self._retries >= self._policy.max_retries or not self._is_worth_it(failure):
            return None
        wait = failure.retry_after
        wait = self._backoff() if wait is None else min(wait, MAX_RETRY_AFTER)
        if failure.is_nobody_here:
            wait = min(wait, self._policy.max_backoff_here)
        deadline = self._policy.overall_deadline
        if deadline is not None and elapsed + wait > deadline:
            return None
        self._retries += 1
        self._may_be_done |= failure.exception is not None and failure.cause != RetryCause.PRE_SEND
        self._last_wait = wait
        return wait

    def was_done_before(self, status_code: int) -> bool:
        """Whether an attempt whose answer was lost has deleted what the next one did not find."""
        return self._method == "DELETE" and status_code == 404 and self._may_be_done

    def event(self, failure: Failure, url: str, wait: timedelta) -> RetryEvent:
        """Describe the retry that next_wait just granted."""
        return RetryEvent(
            attempt=self._retries + 1,
            retries_used=self._retries - 1,
            method=self._method,
            url=url,
            cause=failure.cause,
            status_code=failure.status_code,
            backoff=wait,
            request_id=failure.request_id,
            exception=failure.exception,
        )

    def _is_worth_it(self, failure: Failure) -> bool:
        if failure.cause is RetryCause.PRE_SEND:
            return True  # nothing was sent, so nothing can happen twice
        if failure.status_code is not None:
            return self._policy.retries_status(self._method, failure.status_code)
        return self._is_repeatable

    def _backoff(self) -> timedelta:
        policy = self._policy
        ceiling = min(self._ceiling, policy.max_backoff)
        self._ceiling = ceiling * policy.backoff_multiplier
        match policy.jitter:
            case JitterMode.NONE:
                return ceiling
            case JitterMode.FULL:
                return ceiling * self._spread.random()
            case JitterMode.DECORRELATED:
                lowest = min(policy.initial_backoff, policy.max_backoff)
                highest = min(self._last_wait * policy.backoff_multiplier, policy.max_backoff)
                return lowest + max(highest - lowest, timedelta(0)) * self._spread.random()


def is_this_machine(host: str) -> bool:
    """Whether an address is one of loopback."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def parse_retry_after(value: str | None, now: datetime | None = None) -> timedelta | None:
    """Read a Retry-After header, seconds or a date; what cannot be read is None."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:10]), 10**9))
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(when - (now or datetime.now(UTC)), timedelta(0))
