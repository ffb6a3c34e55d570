# SPDX-License-Identifier: Apache-2.0
"""Translates what others report, once: httpx errors, error answers and unreadable answers."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from opensandbox._retry import parse_retry_after
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxConnectionException,
    SandboxError,
    SandboxInternalException,
    SandboxRateLimitException,
    SandboxTimeoutException,
)

T = TypeVar("T")

REQUEST_ID = "X-Request-ID"
MAX_ERROR_BODY = 64 << 10  # an error has a sentence to say; more is not kept in memory
RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})


# What the server knows is in its message. What only the client knows is here.
_NOBODY_THERE = "check that a server runs there; OPEN_SANDBOX_DOMAIN or ConnectionConfig says where"
_WRONG_KEY = "check OPEN_SANDBOX_API_KEY or the api_key of ConnectionConfig"
_NO_SANDBOX = "it may have ended: see SandboxManager.list_sandbox_infos, or create another"


@contextmanager
def translated() -> Iterator[None]:
    """Turn httpx's errors into ours, keeping the cause."""
    try:
        yield
    except httpx.TimeoutException as cause:
        message = f"no answer in time: {_describe(cause)}"
        raise SandboxTimeoutException(message, cause, is_retryable=True) from cause
    except httpx.ConnectError as cause:
        message = f"connection failed: {_describe(cause)}; {_NOBODY_THERE}"
        raise SandboxConnectionException(message, cause, is_retryable=True) from cause
    except httpx.TransportError as cause:
        message = f"connection failed: {_describe(cause)}"
        raise SandboxConnectionException(message, cause, is_retryable=True) from cause
    except (httpx.HTTPError, httpx.InvalidURL) as cause:
        raise SandboxInternalException(_describe(cause), cause) from cause


def _describe(cause: Exception) -> str:
    try:
        request = cause.request if isinstance(cause, httpx.RequestError) else None
    except RuntimeError:
        request = None  # it failed before there was one
    text = str(cause) or type(cause).__name__
    return f"{request.method} {request.url.copy_with(query=None)}: {text}" if request else text


def api_error(status_code: int, headers: Mapping[str, str], body: bytes) -> SandboxApiException:
    """Make an exception of an error answer, whatever its body looks like."""
    code, message = _code_and_message(body)
    request_id = headers.get(REQUEST_ID)
    summary = message or f"the server answered {status_code}"
    advice = _advice(status_code, code)
    full_message = f"{summary.rstrip('.')}; {advice}" if advice else summary
    if status_code == 429:
        return SandboxRateLimitException(
            full_message,
            error=SandboxError(code or SandboxError.RATE_LIMIT, summary),
            request_id=request_id,
            retry_after=parse_retry_after(headers.get("Retry-After")),
            response_body=body,
        )
    return SandboxApiException(
        full_message,
        status_code=status_code,
        error=SandboxError(code or SandboxError.UNEXPECTED_RESPONSE, summary),
        request_id=request_id,
        response_body=body,
        is_retryable=status_code in RETRYABLE_STATUSES,
    )


def _advice(status_code: int, code: str | None) -> str | None:
    if status_code == 401:
        return _WRONG_KEY
    if status_code == 404 and (code or "").endswith("SANDBOX_NOT_FOUND"):
        return _NO_SANDBOX
    return None


def _code_and_message(body: bytes) -> tuple[str | None, str | None]:
    try:
        content: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None, body[:500].decode(errors="replace").strip() or None
    if not isinstance(content, dict):
        return None, None
    match content.get("detail", content):
        case {"code": str(code), "message": str(message)}:
            return code, message
        case [*problems]:
            return None, "; ".join(_problem(problem) for problem in problems) or None
        case str(message):
            return None, message
    error = content.get("error") or content.get("message")
    return content.get("code"), error if isinstance(error, str) else None


def _problem(problem: object) -> str:
    match problem:
        case {"loc": [*where], "msg": str(message)}:
            return f"{'.'.join(map(str, where))}: {message}"
    return str(problem)


def read_answer(shape: TypeAdapter[T], response: httpx.Response) -> T:
    """Read an answer's body as ``shape``."""
    try:
        return shape.validate_json(response.content)
    except ValidationError as cause:
        error = SandboxError(SandboxError.UNEXPECTED_RESPONSE, f"unreadable answer: {cause}")
        raise SandboxInternalException(
            error.message, cause, error, request_id=response.headers.get(REQUEST_ID)
        ) from cause


@contextmanager
def refused_arguments() -> Iterator[None]:
    """Turn what a model refuses into InvalidArgumentException."""
    try:
        yield
    except ValidationError as cause:
        problems = "; ".join(_problem(problem) for problem in cause.errors())
        raise InvalidArgumentException(problems, cause) from cause
