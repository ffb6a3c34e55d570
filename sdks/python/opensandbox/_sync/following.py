# SPDX-License-Identifier: Apache-2.0
# Made from _async/following.py by scripts/unasync.py; change it there.
"""Reads the events of a run, over as many connections as it takes."""

import random
from contextlib import closing
from datetime import timedelta

import httpx

from opensandbox._events import Event, EventReader, ExecutionEvent, Fold, Kind
from opensandbox._resuming import Ask, Resumption
from opensandbox._retry import Failure, RetryCause, Retrying
from opensandbox.exceptions import (
    SandboxApiException,
    SandboxConnectionException,
    SandboxException,
    SandboxInternalException,
    SandboxTimeoutException,
)
from opensandbox.models import ExecutionHandlersSync
from opensandbox.models.execd import (
    ExecutionComplete,
    ExecutionError,
    ExecutionInit,
    ExecutionResult,
    OutputMessage,
)

from .transport import Remote, chunks_of, reading
from .waiting import sleep

# The daemon says something every 3 seconds. A stream that is silent for as long as a request may
# take, and at least for this long, is dead.
MIN_SILENCE_SECONDS = 7.0

_EVENT_STREAM = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
_WORTH_ANOTHER_TRY = frozenset({409, 429, 502, 503, 504})  # 409: it is paused, perhaps not for long
_NO_SANDBOX = "SANDBOX_NOT_FOUND"
_NOTHING_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Following:
    """The events of one run. A stream that breaks is taken up where it was lost."""

    def __init__(
        self,
        execd: Remote,
        fold: Fold,
        resumption: Resumption,
        handlers: ExecutionHandlersSync | None,
    ) -> None:
        """Fold events that come from ``execd`` and hand them to the handlers."""
        self._execd = execd
        self._fold = fold
        self._resumption = resumption
        self._handlers = handlers
        self._taken = 0

    def run(self, ask: Ask) -> None:
        """Read until the run has ended, or as long as a stream has something to say."""
        lost = self._read_until_lost(ask)
        while lost is not None:
            again = self._resumption.next_ask()
            if again is None:
                raise self._given_up(lost)
            lost = self._resume(again, lost)

    def _read_until_lost(self, ask: Ask) -> SandboxException | None:
        try:
            self._read(ask)
        except (SandboxConnectionException, SandboxTimeoutException) as error:
            if isinstance(error.__cause__, _NOTHING_SENT):
                raise
            return None if self._fold.has_ended else error
        if self._fold.has_ended or not self._fold.kind.ends_with_event:
            return None
        return SandboxConnectionException("the stream ended before the run", is_retryable=True)

    def _resume(self, ask: Ask, lost: SandboxException) -> SandboxException | None:
        """Go on from where the stream was lost; return how it was lost again, if it was."""
        policy = self._execd.config.retry_policy
        retrying = Retrying(policy, ask.method, random.Random())
        taken, wait = self._taken, timedelta(0)
        while True:
            failure = Failure(RetryCause.UNEXPECTED_EOF, exception=lost)
            backoff = retrying.next_wait(failure, timedelta(0))
            if backoff is None:
                raise self._given_up(lost)
            if policy.on_retry is not None:
                policy.on_retry(retrying.event(failure, self._execd.target.base_url, wait))
            sleep(wait.total_seconds())  # the first time at once
            wait = backoff
            try:
                self._read(ask)
            except SandboxApiException as error:
                if error.error.code.endswith(_NO_SANDBOX):
                    raise  # nothing goes on that could be looked for
                if error.status_code not in _WORTH_ANOTHER_TRY:
                    raise self._given_up(lost) from error
                lost = error
                continue
            except (SandboxConnectionException, SandboxTimeoutException) as error:
                lost = error
            if self._fold.has_ended:
                return None
            if self._taken > taken:
                return lost

    def _read(self, ask: Ask) -> None:
        response = self._execd.open(
            ask.method,
            ask.path,
            query=ask.query,
            json=ask.json,
            headers=_EVENT_STREAM,
            is_stream=True,
        )
        _check_media(response, ask.path)
        # Until now it could take any time: a session does one thing after another.
        silence = max(self._execd.config.request_timeout.total_seconds(), MIN_SILENCE_SECONDS)
        response.request.extensions["timeout"]["read"] = silence
        reader = EventReader()
        with closing(chunks_of(response)) as chunks:
            for chunk in chunks:
                for event in reader.feed(chunk):
                    self._take(event)
                if self._fold.is_over:
                    return
            for event in reader.finish():
                self._take(event)

    def _take(self, event: Event) -> None:
        if not self._resumption.accept(event):
            return
        parsed = self._fold.add(event)
        if parsed is not None:
            self._taken += 1
            _notify(self._handlers, parsed)

    def _given_up(self, lost: SandboxException) -> SandboxException:
        message = f"lost the stream of a run: {lost.error.message}; {self._resumption.advice}"
        return SandboxConnectionException(
            message, lost, request_id=lost.request_id, is_retryable=True
        )


def new_fold(kind: Kind, handlers: ExecutionHandlersSync | None) -> Fold:
    """Return an empty fold that keeps output, unless the handlers want to have it alone."""
    return Fold(kind, keeps_output=not (handlers and handlers.skip_accumulation))


def _check_media(response: httpx.Response, path: str) -> None:
    media = response.headers.get("Content-Type", "")
    if "text/event-stream" not in media:
        with reading(response):
            raise SandboxInternalException(f"{path} answered {media}, not an event stream")


def _notify(handlers: ExecutionHandlersSync | None, parsed: ExecutionEvent) -> None:
    if handlers is None:
        return
    match parsed:
        case OutputMessage(is_error=True) if handlers.on_stderr:
            handlers.on_stderr(parsed)
        case OutputMessage(is_error=False) if handlers.on_stdout:
            handlers.on_stdout(parsed)
        case ExecutionResult() if handlers.on_result:
            handlers.on_result(parsed)
        case ExecutionError() if handlers.on_error:
            handlers.on_error(parsed)
        case ExecutionComplete() if handlers.on_execution_complete:
            handlers.on_execution_complete(parsed)
        case ExecutionInit() if handlers.on_init:
            handlers.on_init(parsed)
