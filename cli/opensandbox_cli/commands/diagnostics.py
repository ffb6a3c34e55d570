# SPDX-License-Identifier: Apache-2.0
"""``osb diagnostics``: logs and events of a sandbox, by scope."""

from __future__ import annotations

import click

from opensandbox_cli.arguments import output_option, sandbox_argument
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.output import record, show
from opensandbox_cli.plain_text import shown


@click.group()
def diagnostics() -> None:
    """Logs and events by scope."""


@diagnostics.command()
@sandbox_argument
@click.option("-s", "--scope", required=True, help="container or all.")
@output_option("table", "json", "yaml", "raw")
@asynchronous
async def logs(invocation: Invocation, sandbox_id: str, scope: str, output: str) -> None:
    """Show what the entrypoint wrote; raw prints the text alone."""
    async with invocation.manager() as manager:
        found = await manager.get_diagnostic_logs(sandbox_id, scope)
    _show(record(found), output)


@diagnostics.command()
@sandbox_argument
@click.option("-s", "--scope", required=True, help="runtime or all.")
@output_option("table", "json", "yaml", "raw")
@asynchronous
async def events(invocation: Invocation, sandbox_id: str, scope: str, output: str) -> None:
    """Show what happened to a sandbox; raw prints the text alone."""
    async with invocation.manager() as manager:
        found = await manager.get_diagnostic_events(sandbox_id, scope)
    _show(record(found), output)


def _show(found: dict[str, object], output: str) -> None:
    if output in ("json", "yaml"):
        show(found, output)
        return
    text = str(found["content"] or "")
    click.echo(shown(text), nl=False)
    if output == "table" and found["truncated"]:
        click.echo(
            "earlier lines are left out; see more with: osb devops logs ID -n 1000", err=True
        )
