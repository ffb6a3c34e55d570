# SPDX-License-Identifier: Apache-2.0
"""``osb template``: images prepared for fast starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from opensandbox_cli.arguments import PAIR, Pairs, output_option, page_options
from opensandbox_cli.creation import read_json
from opensandbox_cli.failures import CommandFault, ExitCode
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.output import footer, record, show

COLUMNS = {
    "ID": "template_id",
    "PHASE": "status.phase",
    "IMAGE": "image",
    "PUBLISHED AS": "publish",
    "AGE": "age:created_at",
    "METADATA": "metadata",
}
template_argument = click.argument("template_id", metavar="TID")


@click.group()
def template() -> None:
    """Prepare images for fast starts."""


@template.command()
@click.option("-i", "--image", help="The image to prepare.")
@click.option("-p", "--publish", help="Where the result is published.")
@click.option(
    "-f",
    "--file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="A request as JSON; flags win over it.",
)
@click.option("--resource", type=PAIR, multiple=True, help="cpu=1, memory=1Gi; repeatable.")
@click.option("--entrypoint", multiple=True, help="One word of its program; repeatable.")
@click.option("-e", "--env", type=PAIR, multiple=True, help="A variable; repeatable.")
@click.option("-m", "--metadata", type=PAIR, multiple=True, help="A label; repeatable.")
@click.option(
    "--format", "format_", type=click.Choice(["native", "overlaybd"]), help="How it is kept."
)
@click.option("--readiness-probe", help="A command that succeeds when it is warm.")
@click.option("--warmup-seconds", type=click.IntRange(min=0), help="How long it warms up.")
@output_option("table", "json", "yaml", "raw")
@asynchronous
async def create(invocation: Invocation, /, output: str, **flags: Any) -> None:
    """Make a template; raw prints its id alone."""
    from opensandbox.models.templates import CreateTemplateRequest
    from opensandbox_cli.creation import checked_model

    request = checked_model(CreateTemplateRequest, _fields(flags), "the template")
    async with invocation.manager("making a template") as manager:
        made = await manager.create_template(request)
    if output == "raw":
        click.echo(made.template_id)
    else:
        show(record(made), output)


def _fields(flags: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = read_json(flags["file"]) if flags["file"] else {}
    if not isinstance(fields, dict):
        raise CommandFault(f"{flags['file']} must hold a JSON object", ExitCode.USAGE)
    readiness = {
        "probe": flags["readiness_probe"],
        "warmupSeconds": flags["warmup_seconds"],
    }
    given: dict[str, Any] = {
        "image": flags["image"],
        "publish": flags["publish"],
        "resourceLimits": dict(flags["resource"]),
        "entrypoint": list(flags["entrypoint"]),
        "env": dict(flags["env"]),
        "metadata": dict(flags["metadata"]),
        "format": flags["format_"],
        "readiness": {name: value for name, value in readiness.items() if value is not None},
    }
    return fields | {name: value for name, value in given.items() if value}


@template.command()
@template_argument
@output_option("table", "json", "yaml")
@asynchronous
async def get(invocation: Invocation, template_id: str, output: str) -> None:
    """Show a template."""
    async with invocation.manager() as manager:
        found = await manager.get_template(template_id)
    show(record(found), output)


@template.command("list")
@click.option("-m", "--metadata", type=PAIR, multiple=True, help="Only with this; repeatable.")
@page_options
@output_option("table", "json", "yaml")
@asynchronous
async def list_(
    invocation: Invocation, metadata: Pairs, page: int | None, page_size: int | None, output: str
) -> None:
    """List templates."""
    from opensandbox.models.templates import TemplateFilter

    wanted = TemplateFilter(metadata=dict(metadata) or None, page=page, page_size=page_size)
    async with invocation.manager() as manager:
        found = record(await manager.list_templates(wanted))
    if output == "table":
        show(found["template_infos"], output, COLUMNS)
        if more := footer(found["pagination"]):
            click.echo(more, err=True)
    else:
        show(found, output)


@template.command()
@template_argument
@asynchronous
async def delete(invocation: Invocation, template_id: str) -> None:
    """Delete a template; sandboxes made from it go on."""
    async with invocation.manager() as manager:
        await manager.delete_template(template_id)
    click.echo(f"deleted {template_id}")
