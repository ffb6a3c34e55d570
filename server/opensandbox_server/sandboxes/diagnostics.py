# SPDX-License-Identifier: Apache-2.0
"""Texts that help to understand a sandbox that misbehaves. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from opensandbox.models import DiagnosticContent
from opensandbox_server.errors import InvalidParameter, UnsupportedScope
from opensandbox_server.runtimes.base import Inspection
from opensandbox_server.sandboxes.sandbox import Sandbox
from opensandbox_server.store.store import Event

SECONDS_OF = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SCOPES = {"logs": ("container", "all"), "events": ("runtime", "all")}


def check_scope(kind: Literal["logs", "events"], scope: str | None) -> None:
    """Refuse a scope there is not. Raises UnsupportedScope."""
    if scope is not None and scope not in SCOPES[kind]:
        known = " and ".join(SCOPES[kind])
        raise UnsupportedScope(f"Scope {scope!r} of {kind} is not supported; there are {known}.")


def check_since(since: str | None, sandbox: Sandbox, now: datetime) -> None:
    """Refuse to leave out what is older: lines have no time. Raises InvalidParameter."""
    if since is None:
        return
    seconds = min(int(since[:-1]) * SECONDS_OF[since[-1]], timedelta.max.days * SECONDS_OF["d"])
    if timedelta(seconds=seconds) < now - sandbox.stored.created_at:
        raise InvalidParameter(
            f"since={since} is less than the sandbox's age, and its lines have no time; "
            "leave since out, and say with tail how many lines to show."
        )


def last_lines(text: str, count: int) -> tuple[str, bool]:
    """Return the last lines of a text, and whether those are all."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[-count:]), len(lines) <= count


def content(
    sandbox_id: str, kind: Literal["logs", "events"], scope: str, text: str, is_whole: bool
) -> DiagnosticContent:
    """Wrap a text as the stable form has it."""
    return DiagnosticContent(
        sandbox_id=sandbox_id,
        kind=kind,
        scope=scope,
        delivery="inline",
        content_type="text/plain; charset=utf-8",
        truncated=not is_whole,
        content=text,
        content_length=len(text.encode()),
    )


def events_text(events: Sequence[Event]) -> str:
    """Write one event a line."""
    return "".join(
        f"{_time(event.at)} {event.kind} {event.message}".rstrip() + "\n" for event in events
    )


def inspect_text(sandbox: Sandbox, inspection: Inspection) -> str:
    """Write what is wanted and what is seen, one fact a line. Tokens and environment stay out."""
    stored, status = sandbox.stored, sandbox.status
    facts = {
        "id": stored.id,
        "image": stored.spec.image,
        "entrypoint": " ".join(stored.spec.entrypoint),
        "state": status.state.value,
        "reason": status.reason,
        "message": status.message,
        "created": stored.created_at.isoformat(),
        "expires": stored.expires_at.isoformat() if stored.expires_at else "never",
        "started": inspection.instance.started_at.isoformat(),
        **{f"limit {name}": str(value) for name, value in _limits(sandbox)},
        **inspection.details,
    }
    return "".join(f"{name}: {value}\n" for name, value in facts.items() if value)


def summary_text(
    sandbox: Sandbox, inspection: Inspection, events: Sequence[Event], tail: int
) -> str:
    """Write everything on one page."""
    logs, _ = last_lines(inspection.logs, tail)
    parts = [
        ("Sandbox", inspect_text(sandbox, inspection)),
        ("Events", events_text(events)),
        ("Logs", logs),
    ]
    return "\n".join(f"== {title}\n{text}" for title, text in parts)


def _limits(sandbox: Sandbox) -> list[tuple[str, object]]:
    limits = sandbox.stored.spec.resources
    names = ("cpus", "memory_bytes", "pids", "disk_bytes", "gpus")
    return [(name, getattr(limits, name)) for name in names if getattr(limits, name) is not None]


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
