# SPDX-License-Identifier: Apache-2.0
# Made from _async/retry.py by scripts/unasync.py; change it there.
"""An httpx transport that tries again."""

import random
import time
from datetime import timedelta

import httpx

from opensandbox._failures import REQUEST_ID
from opensandbox._retry import (
    IDEMPOTENCY_KEY,
    Failure,
    RetryCause,
    Retrying,
    RetryPolicy,
    is_this_machine,
    parse_retry_after,
)

from .waiting import sleep

NO_RETRY = "opensandbox_no_retry"
"""The request extension that says: one attempt."""

_CAUSES = {
    httpx.ConnectError: RetryCause.PRE_SEND,
    httpx.ConnectTimeout: RetryCause.PRE_SEND,
    httpx.PoolTimeout: RetryCause.PRE_SEND,
    httpx.ReadTimeout: RetryCause.READ_TIMEOUT,
    httpx.WriteTimeout: RetryCause.WRITE_TIMEOUT,
    httpx.RemoteProtocolError: RetryCause.UNEXPECTED_EOF,
}


class RetrySyncTransport(httpx.BaseTransport):
    """Sends requests through another transport, again where the policy says so."""

    def __init__(self, inner: httpx.BaseTransport, policy: RetryPolicy) -> None:
        """Wrap ``inner``; closing this closes it."""
        self.inner = inner
        self.policy = policy
        self._spread = random.Random()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request, as often as it takes and the policy allows."""
        if request.extensions.get(NO_RETRY):
            return self.inner.handle_request(request)
        has_key = IDEMPOTENCY_KEY in request.headers
        retrying = Retrying(self.policy, request.method, self._spread, has_key=has_key)
        began = time.monotonic()
        self._bound_attempts(request)
        while True:
            response: httpx.Response | None = None
            try:
                response = self.inner.handle_request(request)
                if response.status_code < 400:
                    return response
                if retrying.was_done_before(response.status_code):
                    response.close()
                    return httpx.Response(204, headers={REQUEST_ID: _request_id(response)})
                failure = _failed_answer(response)
            except httpx.TransportError as error:
                failure = _failed_transport(error, request.url.host)
            elapsed = timedelta(seconds=time.monotonic() - began)
            wait = retrying.next_wait(failure, elapsed) if _can_resend(request, failure) else None
            if wait is None:
                if response is not None:
                    return response
                assert failure.exception is not None
                raise failure.exception
            if response is not None:
                response.close()
            if self.policy.on_retry is not None:
                self.policy.on_retry(retrying.event(failure, str(request.url), wait))
            sleep(wait.total_seconds())

    def _bound_attempts(self, request: httpx.Request) -> None:
        if self.policy.per_attempt_timeout is None:
            return
        most = self.policy.per_attempt_timeout.total_seconds()
        given = request.extensions.get("timeout") or dict.fromkeys(httpx.Timeout(None).as_dict())
        bounded = {step: most if s is None else min(s, most) for step, s in given.items()}
        request.extensions["timeout"] = bounded

    def close(self) -> None:
        """Close the wrapped transport."""
        self.inner.close()


def _failed_answer(response: httpx.Response) -> Failure:
    return Failure(
        RetryCause.for_status(response.status_code),
        status_code=response.status_code,
        retry_after=parse_retry_after(response.headers.get("Retry-After")),
        request_id=response.headers.get(REQUEST_ID),
    )


def _request_id(response: httpx.Response) -> str:
    return str(response.headers.get(REQUEST_ID, ""))


def _failed_transport(error: httpx.TransportError, host: str) -> Failure:
    causes = (cause for kind, cause in _CAUSES.items() if isinstance(error, kind))
    return Failure(
        next(causes, RetryCause.OPAQUE_TRANSPORT),
        exception=error,
        is_nobody_here=isinstance(error, httpx.ConnectError) and is_this_machine(host),
    )


def _can_resend(request: httpx.Request, failure: Failure) -> bool:
    # A body that is made while it is sent is gone once sending began.
    return failure.cause is RetryCause.PRE_SEND or isinstance(request.stream, httpx.ByteStream)
