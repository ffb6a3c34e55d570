# SPDX-License-Identifier: Apache-2.0
"""``osb devops``: plain text for whoever looks into a sandbox that misbehaves."""

from __future__ import annotations

import click

from opensandbox_cli.arguments import sandbox_argument
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.plain_text import shown

positive = click.IntRange(min=1)


@click.group()
def devops() -> None:
    """Look into a sandbox that misbehaves."""


@devops.command()
@sandbox_argument
@click.option("-n", "--tail", type=positive, default=100, show_default=True, help="Last lines.")
@click.option("-s", "--since", help="Only of this last stretch of time: 30m.")
@asynchronous
async def logs(invocation: Invocation, sandbox_id: str, tail: int, since: str | None) -> None:
    """Show what the entrypoint wrote."""
    await _print(invocation, sandbox_id, "logs", tail=tail, since=since)


@devops.command()
@sandbox_argument
@asynchronous
async def inspect(invocation: Invocation, sandbox_id: str) -> None:
    """Show what is wanted of a sandbox and what is seen of it."""
    await _print(invocation, sandbox_id, "inspect")


@devops.command()
@sandbox_argument
@click.option("-l", "--limit", type=positive, default=50, show_default=True, help="How many.")
@asynchronous
async def events(invocation: Invocation, sandbox_id: str, limit: int) -> None:
    """Show what happened to a sandbox."""
    await _print(invocation, sandbox_id, "events", limit=limit)


@devops.command()
@sandbox_argument
@click.option("-n", "--tail", type=positive, default=50, show_default=True, help="Last log lines.")
@click.option("--event-limit", type=positive, default=20, show_default=True, help="Last events.")
@asynchronous
async def summary(invocation: Invocation, sandbox_id: str, tail: int, event_limit: int) -> None:
    """Show all of it on one page."""
    await _print(invocation, sandbox_id, "summary", tail=tail, event_limit=event_limit)


async def _print(
    invocation: Invocation, sandbox_id: str, view: str, **options: int | str | None
) -> None:
    async with invocation.manager() as manager:
        text = await manager.get_diagnostic_text(sandbox_id, view, **options)
    click.echo(shown(text), nl=not text.endswith("\n"))
