# SPDX-License-Identifier: Apache-2.0
"""What helps to understand a sandbox that misbehaves."""

from typing import Annotated, Literal

from pydantic import Field

from opensandbox.models.diagnostics import DiagnosticContent
from opensandbox_mcp.output import SHOWN
from opensandbox_mcp.sandboxes import Call, sandboxes_of
from opensandbox_mcp.toolbox import Effect, Family, SandboxId

family = Family()


@family.tool(Effect.READS)
async def diagnostics_logs(
    call: Call,
    sandbox_id: SandboxId,
    scope: Annotated[Literal["container", "all"], Field(description="Whose logs.")] = "all",
) -> DiagnosticContent:
    """Return the logs of a sandbox, the newest lines when they are long."""
    async with sandboxes_of(call).id_of(call, sandbox_id) as found:
        return newest(await sandboxes_of(call).manager.get_diagnostic_logs(found, scope))


@family.tool(Effect.READS)
async def diagnostics_events(
    call: Call,
    sandbox_id: SandboxId,
    scope: Annotated[Literal["runtime", "all"], Field(description="Whose events.")] = "all",
) -> DiagnosticContent:
    """Return what happened to a sandbox: its states and why they changed."""
    async with sandboxes_of(call).id_of(call, sandbox_id) as found:
        return newest(await sandboxes_of(call).manager.get_diagnostic_events(found, scope))


def newest(diagnostic: DiagnosticContent) -> DiagnosticContent:
    """Keep the end of a long text."""
    if diagnostic.content is None or len(diagnostic.content) <= SHOWN:
        return diagnostic
    kept = diagnostic.content[-SHOWN:].partition("\n")[2]
    note = f"only the last {len(kept)} of {len(diagnostic.content)} characters are shown"
    changes = {"content": kept, "truncated": True, "warnings": [*(diagnostic.warnings or []), note]}
    return diagnostic.model_copy(update=changes)
