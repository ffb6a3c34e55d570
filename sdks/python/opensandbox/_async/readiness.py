# SPDX-License-Identifier: Apache-2.0
"""Waits until a sandbox has an address and answers, and not longer than it may take."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from opensandbox.exceptions import SandboxApiException, SandboxReadyTimeoutException
from opensandbox.models.endpoints import EXECD_PORT
from opensandbox.models.sandboxes import SandboxCreateResponse, SandboxEndpoint, SandboxState

from .waiting import sleep

DEFAULT_READY_TIMEOUT = timedelta(seconds=30)
DEFAULT_POLLING_INTERVAL = timedelta(milliseconds=200)

# A ping gets what is left of the time to become ready, but always a chance.
MIN_PING_SECONDS = 0.1
MAX_PING_SECONDS = 10.0

# The one error of an endpoint that goes away by itself: the pod has no address yet.
_NO_ADDRESS_YET = "KUBERNETES::POD_IP_NOT_AVAILABLE"


@dataclass(frozen=True)
class Wait:
    """How a caller wants to wait until a sandbox can be used."""

    health_check: Callable[[Any], Awaitable[bool]] | None
    """Decides in place of a ping."""
    timeout: timedelta
    polling_interval: timedelta
    is_skipped: bool

    def after(self, created: SandboxCreateResponse) -> "Wait":
        """Return what is left to wait for after a create.

        A server that puts endpoints into its answer gives it when the daemon has answered. Others
        say nothing of that, nor does one whose sandbox has ended since.
        """
        has_endpoint = str(EXECD_PORT) in (created.endpoints or {})
        is_usable = has_endpoint and created.status.state == SandboxState.RUNNING
        return replace(
            self, is_skipped=self.is_skipped or (is_usable and self.health_check is None)
        )


class Deadline:
    """The time one sandbox has to become ready."""

    def __init__(self, sandbox_id: str, timeout: timedelta, polling_interval: timedelta) -> None:
        """Begin to wait for a sandbox."""
        self._sandbox_id = sandbox_id
        self._ends_at = time.monotonic() + timeout.total_seconds()
        self._interval = max(polling_interval.total_seconds(), 0.0)

    @property
    def remaining(self) -> float:
        """How many seconds are left; less than none when it is over."""
        return self._ends_at - time.monotonic()

    async def wait_before_next_try(self, error: Exception | None) -> None:
        """Sleep a little, or raise when the time is over; ``error`` is what the last try said."""
        if self.remaining <= 0:
            message = f"sandbox {self._sandbox_id} did not become ready in time"
            raise SandboxReadyTimeoutException(f"{message}: {error}" if error else message, error)
        await sleep(min(self._interval, max(self.remaining, 0.0)))


async def find_endpoint(
    deadline: Deadline, ask: Callable[[], Awaitable[SandboxEndpoint]]
) -> SandboxEndpoint:
    """Ask for an endpoint until there is one."""
    while True:
        try:
            return await ask()
        except SandboxApiException as error:
            if error.error.code != _NO_ADDRESS_YET:
                raise
            await deadline.wait_before_next_try(error)


async def wait_until_healthy(deadline: Deadline, check: Callable[[float], Awaitable[bool]]) -> None:
    """Check health until it is good. A check may take so many seconds as it is given."""
    while True:
        error: Exception | None = None
        try:
            if await check(max(deadline.remaining, MIN_PING_SECONDS)):
                return
        except Exception as caught:
            if isinstance(caught, SandboxApiException) and caught.status_code in (401, 403):
                raise  # the same credentials will be refused again
            error = caught
        await deadline.wait_before_next_try(error)
