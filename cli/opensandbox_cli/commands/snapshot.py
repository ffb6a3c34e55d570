# SPDX-License-Identifier: Apache-2.0
"""``osb snapshot``: the files of a sandbox, kept."""

from __future__ import annotations

import click

from opensandbox_cli.arguments import output_option, page_options, sandbox_argument
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.output import footer, record, show

COLUMNS = {
    "ID": "id",
    "NAME": "name",
    "STATE": "status.state",
    "SANDBOX": "sandbox_id",
    "AGE": "age:created_at",
}
snapshot_argument = click.argument("snapshot_id", metavar="SID")


@click.group()
def snapshot() -> None:
    """Keep the files of a sandbox."""


@snapshot.command()
@sandbox_argument
@click.option("--name", help="A name to find it by.")
@output_option("table", "json", "yaml", "raw")
@asynchronous
async def create(invocation: Invocation, sandbox_id: str, name: str | None, output: str) -> None:
    """Keep the files of a sandbox as they are now; raw prints the id alone."""
    async with invocation.manager("making a snapshot") as manager:
        made = await manager.create_snapshot(sandbox_id, name)
    if output == "raw":
        click.echo(made.id)
    else:
        show(record(made), output)


@snapshot.command()
@snapshot_argument
@output_option("table", "json", "yaml")
@asynchronous
async def get(invocation: Invocation, snapshot_id: str, output: str) -> None:
    """Show a snapshot."""
    async with invocation.manager() as manager:
        found = await manager.get_snapshot(snapshot_id)
    show(record(found), output)


@snapshot.command("list")
@click.option("--sandbox-id", help="Only of this sandbox.")
@click.option("--name", help="Only of this name.")
@click.option("--state", "states", multiple=True, help="Only in this state; repeatable.")
@page_options
@output_option("table", "json", "yaml")
@asynchronous
async def list_(
    invocation: Invocation,
    sandbox_id: str | None,
    name: str | None,
    states: tuple[str, ...],
    page: int | None,
    page_size: int | None,
    output: str,
) -> None:
    """List snapshots, newest first."""
    from opensandbox.models.sandboxes import SnapshotFilter

    wanted = SnapshotFilter(
        sandbox_id=sandbox_id,
        name=name,
        states=list(states) or None,
        page=page,
        page_size=page_size,
    )
    async with invocation.manager() as manager:
        found = record(await manager.list_snapshots(wanted))
    if output == "table":
        show(found["snapshot_infos"], output, COLUMNS)
        if more := footer(found["pagination"]):
            click.echo(more, err=True)
    else:
        show(found, output)


@snapshot.command()
@snapshot_argument
@asynchronous
async def delete(invocation: Invocation, snapshot_id: str) -> None:
    """Delete a snapshot."""
    async with invocation.manager() as manager:
        await manager.delete_snapshot(snapshot_id)
    click.echo(f"deleted {snapshot_id}")
