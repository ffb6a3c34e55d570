# SPDX-License-Identifier: Apache-2.0
"""The connections to one sandbox: endpoints of its ports, and the programs that listen there."""

from opensandbox._endpoints import EndpointCache
from opensandbox.models.endpoints import EGRESS_PORT, EXECD_PORT
from opensandbox.models.sandboxes import (
    CreateSandboxRequest,
    SandboxCreateResponse,
    SandboxEndpoint,
    SandboxOrigin,
)

from .egress import Egress
from .manager import SandboxManager
from .readiness import Deadline, find_endpoint
from .transport import Remote, Transport


class Connections:
    """Finds what belongs to a sandbox, and remembers for a while where it was."""

    def __init__(self, sandbox_id: str, transport: Transport, manager: SandboxManager) -> None:
        """Know nothing yet but whom to ask."""
        self.origin: str = SandboxOrigin.UNKNOWN
        """What the sandbox was made from, where the server said so."""
        self.starts_interpreters = False
        """Its execd is known to run code as soon as it answers, without a server beside it."""
        self._sandbox_id = sandbox_id
        self._transport = transport
        self._manager = manager
        self._endpoints = EndpointCache(transport.config)

    def learn(self, request: CreateSandboxRequest, created: SandboxCreateResponse) -> None:
        """Take what the answer to a create says."""
        self.starts_interpreters = created.endpoints is not None  # only our servers say it
        if request.template_id is not None:
            self.origin = SandboxOrigin.TEMPLATE
        # They lead there directly; a caller that wants the server in between must ask for that.
        if self._transport.config.use_server_proxy:
            return
        for port, endpoint in (created.endpoints or {}).items():
            if port.isdecimal():
                self._endpoints.put(int(port), endpoint)

    def forget(self) -> None:
        """Ask again from now on: the sandbox is paused or gone."""
        self._endpoints.clear()

    async def find_endpoint(self, port: int) -> SandboxEndpoint:
        """Return the endpoint of a port."""
        known = self._endpoints.get(port)
        if known is not None:
            return known
        endpoint = await self._manager.get_sandbox_endpoint(self._sandbox_id, port)
        self._endpoints.put(port, endpoint)
        return endpoint

    async def find_execd(self, deadline: Deadline) -> Remote:
        """Return the daemon, which may have no address yet."""
        endpoint = await find_endpoint(deadline, lambda: self.find_endpoint(EXECD_PORT))
        self.origin = endpoint.origin or self.origin
        return self._transport.to(self._transport.config.sandbox(endpoint))

    async def find_egress(self) -> Remote:
        """Return what lets its requests out."""
        endpoint = await self.find_endpoint(EGRESS_PORT)
        return self._transport.to(self._transport.config.sandbox(endpoint))

    @property
    def egress(self) -> Egress:
        """Its policy."""
        # Micro virtual machines have their policy at the lifecycle API.
        if self.origin == SandboxOrigin.TEMPLATE:
            return Egress(self._find_lifecycle, f"/sandboxes/{self._sandbox_id}/networkpolicy")
        return Egress(self.find_egress, "/policy")

    async def _find_lifecycle(self) -> Remote:
        return self._transport.to(self._transport.config.lifecycle)
