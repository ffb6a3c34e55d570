# SPDX-License-Identifier: Apache-2.0
"""One start of ``osb``: its settings, its connections, and the signals that end it."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from opensandbox_cli._version import __version__
from opensandbox_cli.failures import Interrupted
from opensandbox_cli.settings import Settings

if TYPE_CHECKING:
    from opensandbox import Sandbox, SandboxManager
    from opensandbox.config import ConnectionConfig

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Invocation:
    """What every command gets. Nothing is opened before a command asks for it."""

    settings: Settings
    is_verbose: bool = False

    @property
    def server(self) -> str:
        """Where requests go, for messages."""
        return self.config().get_domain()

    def config(self) -> ConnectionConfig:
        """Return how the client connects."""
        from opensandbox.config import ConnectionConfig

        found: dict[str, Any] = {
            name: self.settings.get(f"connection.{name}")
            for name in ("api_key", "domain", "protocol", "use_server_proxy")
        }
        if seconds := self.settings.get("connection.request_timeout"):
            found["request_timeout"] = timedelta(seconds=seconds)
        given = {name: value for name, value in found.items() if value is not None}
        agent = f"OpenSandbox-CLI/{__version__}"
        return ConnectionConfig(**given, debug=self.is_verbose, user_agent=agent)

    @asynccontextmanager
    async def manager(
        self, doing: str = "asking the server", *, is_quiet: bool = False
    ) -> AsyncIterator[SandboxManager]:
        """Open the lifecycle API; says what it is ``doing`` when it takes long.

        ``is_quiet`` leaves the terminal to the block.
        """
        from opensandbox import SandboxManager
        from opensandbox_cli import progress

        telling = nullcontext() if is_quiet else progress.doing(doing)
        async with await SandboxManager.create(self.config()) as manager, telling:
            yield manager

    @asynccontextmanager
    async def sandbox(
        self, sandbox_id: str, doing: str = "asking the sandbox", *, is_quiet: bool = False
    ) -> AsyncIterator[Sandbox]:
        """Hold a sandbox that exists; ``is_quiet`` leaves the terminal to what the block prints."""
        from opensandbox import Sandbox
        from opensandbox_cli import progress

        async with progress.doing("connecting to the sandbox"):
            sandbox = await Sandbox.connect(sandbox_id, self.config(), skip_health_check=True)
        async with sandbox:
            if is_quiet:
                yield sandbox
            else:
                async with progress.doing(doing):
                    yield sandbox


Command = Callable[Concatenate[Invocation, P], Coroutine[Any, Any, T]]


def asynchronous(function: Command[P, T]) -> Callable[P, T]:
    """Make a click command of a coroutine function whose first argument is the invocation."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio
        import signal

        _import_client()
        invocation = click.get_current_context().find_object(Invocation)
        assert invocation is not None, "main() makes one before any command runs"
        before = signal.getsignal(signal.SIGINT)
        try:
            return asyncio.run(_ended_by_signals(function(invocation, *args, **kwargs)))
        finally:
            signal.signal(signal.SIGINT, before)  # the loop leaves Python's own behind

    return run


def _import_client() -> None:
    """Import what takes long, while Ctrl-C still ends us at once."""
    # httpx has a command line, whose imports (rich, pygments) take longer than all others of it.
    # It can do without, and nobody asks this process for it.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    import opensandbox.config  # noqa: F401


async def _ended_by_signals(work: Coroutine[Any, Any, T]) -> T:
    """Let SIGINT, SIGTERM and SIGHUP cancel the work, so that it can clean up; again to give up."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def cancel(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, cancel, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        raise Interrupted(received[0]) from None
