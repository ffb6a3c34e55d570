# SPDX-License-Identifier: Apache-2.0
"""What can go wrong.

SandboxException
├─ SandboxApiException            a server answered, with an error
│  └─ SandboxRateLimitException   it wants to be asked later
├─ SandboxInternalException       something failed on the way
│  ├─ SandboxTimeoutException
│  └─ SandboxConnectionException
├─ SandboxUnhealthyException
├─ SandboxReadyTimeoutException   the sandbox was made but did not answer in time
├─ InvalidArgumentException       refused before anything was sent
├─ PoolEmptyException             nothing idle, and nothing may be made
├─ PoolAcquireFailedException     idle sandboxes were there, but none that answers
├─ PoolNotRunningException
├─ PoolStateStoreUnavailableException
├─ PoolDestroyedException         somebody destroyed the pool, for everybody
└─ PoolDestroyIncompleteException
"""

from datetime import timedelta

__all__ = [
    "InvalidArgumentException",
    "PoolAcquireFailedException",
    "PoolDestroyIncompleteException",
    "PoolDestroyedException",
    "PoolEmptyException",
    "PoolNotRunningException",
    "PoolStateStoreUnavailableException",
    "SandboxApiException",
    "SandboxConnectionException",
    "SandboxError",
    "SandboxException",
    "SandboxInternalException",
    "SandboxRateLimitException",
    "SandboxReadyTimeoutException",
    "SandboxTimeoutException",
    "SandboxUnhealthyException",
]


class SandboxError:
    """A code for programs and a message for people. A server's code is passed through."""

    INTERNAL_UNKNOWN_ERROR = "INTERNAL_UNKNOWN_ERROR"
    READY_TIMEOUT = "READY_TIMEOUT"
    UNHEALTHY = "UNHEALTHY"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    UNEXPECTED_RESPONSE = "UNEXPECTED_RESPONSE"
    TIMEOUT = "TIMEOUT"
    CONNECTION = "CONNECTION"
    RATE_LIMIT = "RATE_LIMIT"
    POOL_EMPTY = "POOL_EMPTY"
    POOL_ACQUIRE_FAILED = "POOL_ACQUIRE_FAILED"
    POOL_STATE_STORE_UNAVAILABLE = "POOL_STATE_STORE_UNAVAILABLE"
    POOL_NOT_RUNNING = "POOL_NOT_RUNNING"
    POOL_DESTROYED = "POOL_DESTROYED"
    POOL_DESTROY_INCOMPLETE = "POOL_DESTROY_INCOMPLETE"

    def __init__(self, code: str, message: str | None = None) -> None:
        """Name the error."""
        self.code = code
        self.message = message

    def __repr__(self) -> str:
        return f"SandboxError(code={self.code!r}, message={self.message!r})"


class SandboxException(Exception):
    """Anything that can go wrong here."""

    default_code = SandboxError.INTERNAL_UNKNOWN_ERROR
    is_retryable = False

    def __init__(
        self,
        message: str | None = None,
        cause: BaseException | None = None,
        error: SandboxError | None = None,
        request_id: str | None = None,
        is_retryable: bool = False,
    ) -> None:
        """Say what went wrong. ``is_retryable``: the same call may succeed later."""
        super().__init__(message)
        self.__cause__ = cause
        self.error = error or SandboxError(self.default_code, message)
        self.request_id = request_id
        self.is_retryable = is_retryable

    def __str__(self) -> str:
        text = super().__str__() or self.error.message or ""
        if self.error.message and self.error.message.rstrip(".") not in text:
            text = f"{text}: {self.error.message}"
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"[{self.error.code}] {text}{request}"


class SandboxApiException(SandboxException):
    """A server answered with an error; its body is kept, bounded."""

    default_code = SandboxError.UNEXPECTED_RESPONSE

    def __init__(
        self,
        message: str | None = None,
        cause: BaseException | None = None,
        status_code: int | None = None,
        error: SandboxError | None = None,
        request_id: str | None = None,
        response_body: bytes | None = None,
        is_retryable: bool = False,
    ) -> None:
        """Keep what the server said."""
        super().__init__(message, cause, error, request_id, is_retryable)
        self.status_code = status_code
        self.response_body = response_body


class SandboxRateLimitException(SandboxApiException):
    """The server answered 429; ``retry_after`` is how long it wants to be left alone."""

    default_code = SandboxError.RATE_LIMIT

    def __init__(
        self,
        message: str | None = None,
        cause: BaseException | None = None,
        status_code: int | None = 429,
        error: SandboxError | None = None,
        request_id: str | None = None,
        retry_after: timedelta | None = None,
        response_body: bytes | None = None,
        is_retryable: bool = True,
    ) -> None:
        """Keep what the server said."""
        super().__init__(
            message, cause, status_code, error, request_id, response_body, is_retryable
        )
        self.retry_after = retry_after


class SandboxInternalException(SandboxException):
    """No usable answer: something failed on the way, or the answer could not be read."""


class SandboxTimeoutException(SandboxInternalException):
    """Nobody answered in time."""

    default_code = SandboxError.TIMEOUT


class SandboxConnectionException(SandboxInternalException):
    """No connection, or it was lost."""

    default_code = SandboxError.CONNECTION


class SandboxUnhealthyException(SandboxException):
    """The sandbox is not well."""

    default_code = SandboxError.UNHEALTHY


class SandboxReadyTimeoutException(SandboxException):
    """The sandbox did not become ready in time; the cause is what the last try said."""

    default_code = SandboxError.READY_TIMEOUT


class InvalidArgumentException(SandboxException):
    """An argument that cannot work; nothing was sent."""

    default_code = SandboxError.INVALID_ARGUMENT


class PoolEmptyException(SandboxException):
    """Nothing is idle and the policy makes nothing; try later, or with DIRECT_CREATE."""

    default_code = SandboxError.POOL_EMPTY


class PoolAcquireFailedException(SandboxException):
    """Idle sandboxes were there, but none that answers; the cause is what the last one said."""

    default_code = SandboxError.POOL_ACQUIRE_FAILED


class PoolStateStoreUnavailableException(SandboxException):
    """The store of the pool cannot be reached."""

    default_code = SandboxError.POOL_STATE_STORE_UNAVAILABLE


class PoolNotRunningException(SandboxException):
    """The pool was not started, or is shut down."""

    default_code = SandboxError.POOL_NOT_RUNNING


class PoolDestroyedException(SandboxException):
    """The pool is destroyed in its store, for everybody; use another name."""

    default_code = SandboxError.POOL_DESTROYED


class PoolDestroyIncompleteException(SandboxException):
    """Something of the pool is left; destroy it again."""

    default_code = SandboxError.POOL_DESTROY_INCOMPLETE
