# SPDX-License-Identifier: Apache-2.0
"""``osb sandbox``: make, list, inspect and end sandboxes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import click

from opensandbox_cli.arguments import (
    DURATION,
    PAIR,
    SANDBOX_ID,
    Pairs,
    output_option,
    page_options,
    sandbox_argument,
)
from opensandbox_cli.creation import create as create_sandbox
from opensandbox_cli.creation import creation_options
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.output import footer, record, show

COLUMNS = {
    "ID": "id",
    "STATE": "status.state",
    "IMAGE": "image.image",
    "AGE": "age:created_at",
    "ENDS IN": "left:expires_at",
    "METADATA": "metadata",
}
WATCH_SECONDS = 1.0


@click.group()
def sandbox() -> None:
    """Make, list, inspect and end sandboxes."""


@sandbox.command()
@creation_options
@output_option("table", "json", "yaml", "raw")
@asynchronous
async def create(invocation: Invocation, /, output: str, **flags: Any) -> None:
    """Make a sandbox; raw prints its id alone."""
    async with await create_sandbox(invocation, flags) as made:
        if output == "raw":
            click.echo(made.id)
        else:
            show(record(await made.get_info()), output)


@sandbox.command("list")
@click.option("-s", "--state", "states", multiple=True, help="Only in this state; repeatable.")
@click.option("-m", "--metadata", type=PAIR, multiple=True, help="Only with this; repeatable.")
@page_options
@output_option("table", "json", "yaml", "raw")
@asynchronous
async def list_(
    invocation: Invocation,
    states: tuple[str, ...],
    metadata: Pairs,
    page: int | None,
    page_size: int | None,
    output: str,
) -> None:
    """List sandboxes, newest first; raw prints their ids alone."""
    from opensandbox.models.sandboxes import SandboxFilter

    wanted = SandboxFilter(
        states=list(states) or None,
        metadata=dict(metadata) or None,
        page=page,
        page_size=page_size,
    )
    async with invocation.manager() as manager:
        found = record(await manager.list_sandbox_infos(wanted))
    match output:
        case "table":
            show(found["sandbox_infos"], output, COLUMNS)
            if more := footer(found["pagination"]):
                click.echo(more, err=True)
        case "raw":
            for info in found["sandbox_infos"]:
                click.echo(info["id"])
        case _:
            show(found, output)


@sandbox.command()
@sandbox_argument
@output_option("table", "json", "yaml")
@asynchronous
async def get(invocation: Invocation, sandbox_id: str, output: str) -> None:
    """Show a sandbox."""
    async with invocation.manager() as manager:
        info = await manager.get_sandbox_info(sandbox_id)
    show(record(info), output)


@sandbox.command()
@click.argument("sandbox_ids", metavar="ID...", nargs=-1, required=True, type=SANDBOX_ID)
@output_option("table", "json", "yaml")
@asynchronous
async def kill(invocation: Invocation, sandbox_ids: tuple[str, ...], output: str) -> None:
    """End sandboxes; nothing of them is left."""
    async with invocation.manager("ending sandboxes") as manager:
        for sandbox_id in sandbox_ids:
            await manager.kill_sandbox(sandbox_id)
    report(output, [{"id": sandbox_id, "status": "killed"} for sandbox_id in sandbox_ids])


@sandbox.command()
@sandbox_argument
@output_option("table", "json", "yaml")
@asynchronous
async def pause(invocation: Invocation, sandbox_id: str, output: str) -> None:
    """Freeze every process of a sandbox."""
    async with invocation.manager("pausing the sandbox") as manager:
        await manager.pause_sandbox(sandbox_id)
    report(output, {"id": sandbox_id, "status": "paused"})


@sandbox.command()
@sandbox_argument
@click.option("--skip-health-check", is_flag=True, help="Do not wait until it answers.")
@click.option(
    "--resume-timeout",
    type=DURATION,
    default="30s",
    show_default=True,
    help="How long to wait for it.",
)
@output_option("table", "json", "yaml")
@asynchronous
async def resume(
    invocation: Invocation,
    sandbox_id: str,
    skip_health_check: bool,
    resume_timeout: timedelta,
    output: str,
) -> None:
    """Let a paused sandbox go on."""
    from opensandbox import Sandbox
    from opensandbox_cli import progress

    async with progress.doing("resuming the sandbox"):
        held = await Sandbox.resume(
            sandbox_id,
            invocation.config(),
            skip_health_check=skip_health_check,
            resume_timeout=resume_timeout,
        )
    await held.close()
    report(output, {"id": sandbox_id, "status": "resumed"})


@sandbox.command()
@sandbox_argument
@click.option("-t", "--timeout", type=DURATION, required=True, help="How long from now: 1h30m.")
@output_option("table", "json", "yaml")
@asynchronous
async def renew(invocation: Invocation, sandbox_id: str, timeout: timedelta, output: str) -> None:
    """Let a sandbox live for so long from now."""
    async with invocation.manager() as manager:
        renewed = await manager.renew_sandbox(sandbox_id, timeout)
    show({"id": sandbox_id, **record(renewed)}, output)


@sandbox.command()
@sandbox_argument
@click.option("-p", "--port", type=click.IntRange(1, 65535), required=True, help="Which port.")
@output_option("table", "json", "yaml", "raw")
@asynchronous
async def endpoint(invocation: Invocation, sandbox_id: str, port: int, output: str) -> None:
    """Show the address of a port; raw prints it alone."""
    async with invocation.manager() as manager:
        found = await manager.get_sandbox_endpoint(sandbox_id, port)
    if output == "raw":
        click.echo(found.endpoint)
    else:
        show(record(found), output)


@sandbox.command()
@sandbox_argument
@output_option("table", "json", "yaml")
@asynchronous
async def health(invocation: Invocation, sandbox_id: str, output: str) -> None:
    """Ask whether a sandbox answers; exits with 1 when it does not."""
    async with invocation.sandbox(sandbox_id) as held:
        is_healthy = await held.is_healthy()
    show({"id": sandbox_id, "healthy": is_healthy}, output)
    if not is_healthy:
        raise click.exceptions.Exit(1)


@sandbox.command()
@sandbox_argument
@click.option("--watch", is_flag=True, help="Show them again every second, until Ctrl-C.")
@output_option("table", "json", "yaml")
@asynchronous
async def metrics(invocation: Invocation, sandbox_id: str, watch: bool, output: str) -> None:
    """Show what a sandbox uses."""
    async with invocation.sandbox(sandbox_id, is_quiet=True) as held:
        while True:
            show(record(await held.get_metrics()), output)
            if not watch:
                return
            click.echo("---" if output == "yaml" else "")
            await asyncio.sleep(WATCH_SECONDS)


def report(output: str, done: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Say that something was done, as a line for people."""
    if output != "table":
        show(done, output)
        return
    for one in done if isinstance(done, list) else [done]:
        click.echo(f"{one['status']} {one['id']}")
