# SPDX-License-Identifier: Apache-2.0
"""One sandbox, as long as the server knows it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from opensandbox.models import SandboxState
from opensandbox_server.errors import IngressUnavailable
from opensandbox_server.ingress.routes import Route, Routes
from opensandbox_server.runtimes.base import Instance, InstanceState
from opensandbox_server.sandboxes.states import Status, status_of
from opensandbox_server.store.stored import StoredSandbox
from opensandbox_server.telemetry.context import about


@dataclass(slots=True, eq=False)
class Sandbox:
    """One sandbox: what is wanted of it and what is seen of it. Changes hold its lock."""

    stored: StoredSandbox
    status: Status = field(
        default_factory=lambda: Status(SandboxState.PENDING, "CONTAINER_STARTING")
    )
    instance: Instance | None = None
    is_stored: bool = True
    """Until then it may turn out that it is not to be made, and nobody is shown it."""
    renewed_at: float = 0.0
    """When traffic last lengthened its life, in Unix seconds."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Have it for oneself; what is logged meanwhile is about it."""
        async with self.lock:
            with about(self.stored.id):
                yield

    def see(self, instance: Instance) -> None:
        """Take what the runtime sees."""
        self.instance = instance
        self.status = status_of(instance)

    def route(self, *, is_paused: bool) -> Route:
        """Return the way in."""
        assert self.instance is not None
        return Route(
            id=self.stored.id,
            socket=self.instance.execd.socket,
            tcp=self.instance.execd.tcp,
            is_paused=is_paused,
            execd_token=self.stored.execd_token,
            secure_token=self.stored.secure_token,
        )


async def refresh_route(routes: Routes, sandbox: Sandbox) -> None:
    """Let requests through to a sandbox that is there, and to none that has ended.

    While ingress is down nothing passes; the next one gets all routes as they are by then.
    """
    instance = sandbox.instance
    with contextlib.suppress(IngressUnavailable):
        if instance is None or instance.state is InstanceState.EXITED:
            await routes.delete(sandbox.stored.id)
        else:
            await routes.put(sandbox.route(is_paused=instance.state is InstanceState.PAUSED))
