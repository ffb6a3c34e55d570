# SPDX-License-Identifier: Apache-2.0
"""Endpoints of the ports of a sandbox."""

import time
from typing import Annotated

from pydantic import Field

from opensandbox.exceptions import InvalidArgumentException
from opensandbox_mcp.results import Endpoint
from opensandbox_mcp.sandboxes import Call, sandboxes_of
from opensandbox_mcp.toolbox import ConnectIfMissing, Effect, Family, SandboxId

family = Family()

OWN_PORTS = {44772: "execd, whose token is", 18080: "the egress proxy, whose token is"}
"""What serves the sandbox itself. An address of these comes with all rights over the sandbox."""

Port = Annotated[int, Field(ge=1, le=65535, description="A port that a program listens on.")]


@family.tool(Effect.READS)
async def sandbox_get_endpoint(
    call: Call, sandbox_id: SandboxId, port: Port, connect_if_missing: ConnectIfMissing = False
) -> Endpoint:
    """Return the address of a port of a sandbox, and the headers that requests to it need."""
    _refuse_own_ports(port)
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        return Endpoint.of(await sandbox.get_endpoint(port))


@family.tool(Effect.READS)
async def sandbox_get_signed_endpoint(
    call: Call,
    sandbox_id: SandboxId,
    port: Port,
    expires_in_seconds: Annotated[int, Field(ge=1, description="How long it works.")] = 3600,
    connect_if_missing: ConnectIfMissing = False,
) -> Endpoint:
    """Return an address of a port that needs no header for a while, such as for a browser."""
    _refuse_own_ports(port)
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        expires = int(time.time()) + expires_in_seconds
        return Endpoint.of(await sandbox.get_signed_endpoint(port, expires))


def _refuse_own_ports(port: int) -> None:
    if whose := OWN_PORTS.get(port):
        raise InvalidArgumentException(f"Port {port} is that of {whose} not for models.")
