# SPDX-License-Identifier: Apache-2.0
"""What may go out of a sandbox."""

from typing import Annotated

from pydantic import Field

from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule
from opensandbox_mcp.sandboxes import Call, sandboxes_of
from opensandbox_mcp.toolbox import ConnectIfMissing, Effect, Family, SandboxId

family = Family()


@family.tool(Effect.READS)
async def egress_get_policy(
    call: Call, sandbox_id: SandboxId, connect_if_missing: ConnectIfMissing = False
) -> NetworkPolicy:
    """Return what a sandbox may reach."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        return await sandbox.get_egress_policy()


@family.tool(Effect.CHANGES)
async def egress_patch_rules(
    call: Call,
    sandbox_id: SandboxId,
    rules: Annotated[
        list[NetworkRule],
        Field(min_length=1, description='Such as {"action": "allow", "target": "pypi.org"}.'),
    ],
    connect_if_missing: ConnectIfMissing = False,
) -> NetworkPolicy:
    """Allow or deny targets, in front of the rules there are, and return the new policy."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.patch_egress_rules(rules)
        return await sandbox.get_egress_policy()


@family.tool(Effect.CHANGES)
async def egress_delete_rules(
    call: Call,
    sandbox_id: SandboxId,
    targets: Annotated[list[str], Field(min_length=1, description="Whose rules to remove.")],
    connect_if_missing: ConnectIfMissing = False,
) -> NetworkPolicy:
    """Remove the rules of targets and return the new policy."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.delete_egress_rules(targets)
        return await sandbox.get_egress_policy()
