# SPDX-License-Identifier: Apache-2.0
"""``osb config``: the settings of osb itself."""

from __future__ import annotations

import click

from opensandbox_cli.arguments import output_option
from opensandbox_cli.failures import CommandFault
from opensandbox_cli.invocation import Invocation
from opensandbox_cli.output import show
from opensandbox_cli.settings import KEYS, TEMPLATE, write_private, write_setting

COLUMNS = {"KEY": "key", "VALUE": "value", "FROM": "source"}
SHOWN_OF_A_KEY = 4


@click.group()
def config() -> None:
    """Show and change the settings of osb."""


@config.command()
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@click.pass_obj
def init(invocation: Invocation, force: bool) -> None:
    """Write a config file to start from."""
    path = invocation.settings.path
    if path.exists() and not force:
        raise CommandFault(f"{path} exists; replace it with: osb config init --force")
    write_private(path, TEMPLATE)
    click.echo(f"wrote {path}")


@config.command("show")
@output_option("table", "json", "yaml")
@click.pass_obj
def show_(invocation: Invocation, output: str) -> None:
    """Show every setting in force and where it comes from; the key is hidden."""
    rows = []
    for key in KEYS:
        known = invocation.settings.known.get(key)
        value = known.value if known else None
        if key == "connection.api_key" and value:
            value = f"…{value[-SHOWN_OF_A_KEY:]}" if len(value) > 2 * SHOWN_OF_A_KEY else "…"
        rows.append({"key": key, "value": value, "source": known.source if known else "default"})
    show(rows, output, COLUMNS)


@config.command("set")
@click.argument("key", metavar="KEY", type=click.Choice(list(KEYS)))
@click.argument("value", metavar="VALUE")
@click.pass_obj
def set_(invocation: Invocation, key: str, value: str) -> None:
    """Set one key of the config file, like: connection.domain localhost:8080"""
    path = invocation.settings.path
    write_setting(path, key, value)
    click.echo(f"set {key} in {path}")
