# SPDX-License-Identifier: Apache-2.0
"""A sandbox as an interpreter of code."""

from datetime import timedelta
from types import TracebackType
from typing import Self

from opensandbox import Sandbox
from opensandbox._async.codes import Codes
from opensandbox._async.commands import Commands
from opensandbox._async.files import Files
from opensandbox._async.metrics import Metrics
from opensandbox._async.readiness import (
    DEFAULT_POLLING_INTERVAL,
    DEFAULT_READY_TIMEOUT,
    MAX_PING_SECONDS,
    Deadline,
    wait_until_healthy,
)
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxException,
    SandboxUnhealthyException,
)
from opensandbox.models.execd import RunCommandOpts

# The published daemon runs code in a Jupyter server, which begins to listen after the daemon has
# answered; ours listens there when it is asked. What has no bash is no image of the published one.
_IS_LISTENING = (
    "command -v bash >/dev/null || exit 0; "
    "bash -c 'exec 3<>/dev/tcp/127.0.0.1/${JUPYTER_PORT:-44771}'"
)
_NOT_LISTENING = (
    "its code interpreter does not listen yet; choose an image with one and its entrypoint, "
    "or pass skip_health_check=True"
)


class CodeInterpreter:
    """Runs code in a sandbox and keeps its state from one piece of code to the next.

    Made by ``create``. It uses the sandbox's connections, and leaves the sandbox as it is when it
    is closed.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        """Hold a sandbox; most callers want ``create``, which also waits until it is ready."""
        self._sandbox = sandbox

    @classmethod
    async def create(
        cls,
        sandbox: Sandbox,
        *,
        ready_timeout: timedelta = DEFAULT_READY_TIMEOUT,
        health_check_polling_interval: timedelta = DEFAULT_POLLING_INTERVAL,
        skip_health_check: bool = False,
    ) -> Self:
        """Return an interpreter in a sandbox that lives, as soon as it can run code."""
        if sandbox is None:
            raise InvalidArgumentException("an interpreter needs a sandbox; make one first")
        interpreter = cls(sandbox)
        if not skip_health_check:
            await interpreter.check_ready(ready_timeout, health_check_polling_interval)
        return interpreter

    @property
    def id(self) -> str:
        """The id of its sandbox."""
        return self._sandbox.id

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox it is in."""
        return self._sandbox

    @property
    def codes(self) -> Codes:
        """Contexts and code."""
        return self._sandbox.codes

    @property
    def files(self) -> Files:
        """Files of the sandbox."""
        return self._sandbox.files

    @property
    def commands(self) -> Commands:
        """Commands of the sandbox."""
        return self._sandbox.commands

    @property
    def metrics(self) -> Metrics:
        """What the sandbox uses."""
        return self._sandbox.metrics

    async def ping(self) -> bool:
        """Whether the sandbox answers."""
        return await self.codes.ping()

    async def is_healthy(self) -> bool:
        """Whether it can run code."""
        try:
            return await self._check_health(MAX_PING_SECONDS)
        except SandboxException:
            return False

    async def check_ready(self, timeout: timedelta, polling_interval: timedelta) -> None:
        """Return when it can run code; raise when it cannot within ``timeout``."""
        await wait_until_healthy(Deadline(self.id, timeout, polling_interval), self._check_health)

    async def aclose(self) -> None:
        """Do nothing: the connections are the sandbox's, which goes on."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _check_health(self, seconds: float) -> bool:
        if self._sandbox._connections.starts_interpreters:
            return await self._sandbox._check_health(seconds)
        opts = RunCommandOpts(timeout=timedelta(seconds=seconds))
        listening = await self._sandbox.commands.run(_IS_LISTENING, opts=opts)
        if listening.error is not None:
            raise SandboxUnhealthyException(_NOT_LISTENING)
        return True
