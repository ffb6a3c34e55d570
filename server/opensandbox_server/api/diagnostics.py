# SPDX-License-Identifier: Apache-2.0
"""Routes that help to understand a sandbox that misbehaves."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, Response

from opensandbox.models import DiagnosticContent
from opensandbox_server.api.depends import PrincipalDep, SandboxesDep
from opensandbox_server.sandboxes import diagnostics

router = APIRouter(prefix="/sandboxes/{sandbox_id}/diagnostics", tags=["diagnostics"])

Tail = Annotated[int, Query(ge=1, le=10000)]
Limit = Annotated[int, Query(ge=1, le=500)]
Since = Annotated[str | None, Query(pattern=r"^[0-9]+[smhd]$")]

_DEPRECATED = {"Deprecation": "true"}


@router.get("/logs", response_model=DiagnosticContent, response_model_exclude_none=True)
async def logs(
    sandbox_id: str,
    sandboxes: SandboxesDep,
    by: PrincipalDep,
    scope: str | None = None,
    tail: Tail = 100,
    since: Since = None,
    container: str | None = None,  # noqa: ARG001 - a sandbox is one
) -> DiagnosticContent | Response:
    """Show what the entrypoint wrote; without a scope as plain text."""
    diagnostics.check_scope("logs", scope)
    diagnostics.check_since(since, await sandboxes.get(by, sandbox_id), datetime.now(UTC))
    text, is_whole = diagnostics.last_lines((await sandboxes.inspect(by, sandbox_id)).logs, tail)
    if scope is None:
        return PlainTextResponse(text, headers=_DEPRECATED)
    return diagnostics.content(sandbox_id, "logs", scope, text, is_whole)


@router.get("/events", response_model=DiagnosticContent, response_model_exclude_none=True)
async def events(
    sandbox_id: str,
    sandboxes: SandboxesDep,
    by: PrincipalDep,
    scope: str | None = None,
    limit: Limit = 50,
) -> DiagnosticContent | Response:
    """Show what happened to the sandbox; without a scope as plain text."""
    diagnostics.check_scope("events", scope)
    text = diagnostics.events_text(await sandboxes.events(by, sandbox_id, limit))
    if scope is None:
        return PlainTextResponse(text, headers=_DEPRECATED)
    return diagnostics.content(sandbox_id, "events", scope, text, is_whole=True)


@router.get("/inspect", response_class=PlainTextResponse)
async def inspect(sandbox_id: str, sandboxes: SandboxesDep, by: PrincipalDep) -> str:
    """Show what is wanted and what is seen, as plain text."""
    return diagnostics.inspect_text(
        await sandboxes.get(by, sandbox_id), await sandboxes.inspect(by, sandbox_id)
    )


@router.get("/summary", response_class=PlainTextResponse)
async def summary(
    sandbox_id: str,
    sandboxes: SandboxesDep,
    by: PrincipalDep,
    tail: Tail = 50,
    event_limit: Limit = 20,
) -> str:
    """Show inspect, events and logs on one page."""
    seen = await sandboxes.inspect(by, sandbox_id)
    happened = await sandboxes.events(by, sandbox_id, event_limit)
    return diagnostics.summary_text(await sandboxes.get(by, sandbox_id), seen, happened, tail)
