# SPDX-License-Identifier: Apache-2.0
"""Says what goes wrong with a WebSocket in our own words. Knows no connection."""

from collections.abc import Iterator
from contextlib import contextmanager

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from opensandbox._failures import api_error
from opensandbox.exceptions import SandboxConnectionException, SandboxTimeoutException

MAX_MESSAGE = 4 << 20  # the daemon's largest is 1 MiB; whoever sends more wants to fill our memory

_NORMAL = (1000, 1001)


def websocket_url(base_url: str, path: str) -> str:
    """Return the address of a WebSocket below an http or https one."""
    return "ws" + base_url.removeprefix("http") + path


def is_normal(closed: ConnectionClosed) -> bool:
    """Whether the other side closed because it was done."""
    return closed.rcvd is not None and closed.rcvd.code in _NORMAL


@contextmanager
def opening(what: str) -> Iterator[None]:
    """Turn what goes wrong while a WebSocket opens into our exceptions."""
    try:
        yield
    except InvalidStatus as cause:
        answer = cause.response
        raise api_error(answer.status_code, answer.headers, bytes(answer.body or b"")) from cause
    except TimeoutError as cause:
        message = f"{what}: no answer in time"
        raise SandboxTimeoutException(message, cause, is_retryable=True) from cause
    except (OSError, WebSocketException) as cause:
        message = f"{what}: connection failed: {cause}; check that the server runs"
        raise SandboxConnectionException(message, cause, is_retryable=True) from cause


@contextmanager
def speaking(what: str) -> Iterator[None]:
    """Turn the end of a connection, in the middle of a sentence, into our exception."""
    try:
        yield
    except ConnectionClosed as cause:
        reason = (cause.rcvd.reason if cause.rcvd else "") or str(cause)
        raise SandboxConnectionException(f"{what}: {reason}", cause, is_retryable=True) from cause
