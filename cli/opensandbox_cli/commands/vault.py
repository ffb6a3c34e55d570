# SPDX-License-Identifier: Apache-2.0
"""``osb credential-vault``: secrets that a sandbox uses and never sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from opensandbox_cli.arguments import output_option, sandbox_argument
from opensandbox_cli.creation import read_json
from opensandbox_cli.failures import CommandFault, ExitCode
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.output import record, show

file_option: Callable[[Any], Any] = click.option(
    "--file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    required=True,
    help="The request as JSON; - reads standard input, which keeps secrets out of files.",
)
name_argument = click.argument("name", metavar="NAME")
CREDENTIALS = {"NAME": "name", "REVISION": "revision"}
BINDINGS = {"NAME": "name", "REVISION": "revision"}


@click.group("credential-vault")
def credential_vault() -> None:
    """Secrets that a sandbox uses and never sees."""


@credential_vault.command()
@sandbox_argument
@file_option
@output_option("table", "json", "yaml")
@asynchronous
async def create(invocation: Invocation, sandbox_id: str, file: Path, output: str) -> None:
    """Fill the vault of a sandbox: credentials, and where each is used."""
    content = _read(file)
    async with invocation.sandbox(sandbox_id) as held:
        state = await held.credential_vault.create(
            credentials=content.get("credentials", []), bindings=content.get("bindings", [])
        )
    show(record(state), output)


@credential_vault.command()
@sandbox_argument
@output_option("table", "json", "yaml")
@asynchronous
async def get(invocation: Invocation, sandbox_id: str, output: str) -> None:
    """Show what the vault holds, without the secrets."""
    async with invocation.sandbox(sandbox_id) as held:
        state = await held.credential_vault.get()
    show(record(state), output)


@credential_vault.command()
@sandbox_argument
@file_option
@output_option("table", "json", "yaml")
@asynchronous
async def patch(invocation: Invocation, sandbox_id: str, file: Path, output: str) -> None:
    """Change what the vault holds."""
    content = _read(file)
    async with invocation.sandbox(sandbox_id) as held:
        state = await held.credential_vault.patch(
            expected_revision=content.get("expectedRevision"),
            credentials=content.get("credentials"),
            bindings=content.get("bindings"),
        )
    show(record(state), output)


@credential_vault.command()
@sandbox_argument
@asynchronous
async def delete(invocation: Invocation, sandbox_id: str) -> None:
    """Empty the vault."""
    async with invocation.sandbox(sandbox_id) as held:
        await held.credential_vault.delete()
    click.echo(f"emptied the vault of {sandbox_id}")


@credential_vault.group()
def credential() -> None:
    """The credentials in the vault, without their secrets."""


@credential.command("list")
@sandbox_argument
@output_option("table", "json", "yaml")
@asynchronous
async def list_credentials(invocation: Invocation, sandbox_id: str, output: str) -> None:
    """List the credentials."""
    async with invocation.sandbox(sandbox_id) as held:
        found = await held.credential_vault.list_credentials()
    show([record(one) for one in found], output, CREDENTIALS)


@credential.command("get")
@sandbox_argument
@name_argument
@output_option("table", "json", "yaml")
@asynchronous
async def get_credential(invocation: Invocation, sandbox_id: str, name: str, output: str) -> None:
    """Show a credential."""
    async with invocation.sandbox(sandbox_id) as held:
        found = await held.credential_vault.get_credential(name)
    show(record(found), output)


@credential_vault.group()
def binding() -> None:
    """Where the credentials are used."""


@binding.command("list")
@sandbox_argument
@output_option("table", "json", "yaml")
@asynchronous
async def list_bindings(invocation: Invocation, sandbox_id: str, output: str) -> None:
    """List the bindings."""
    async with invocation.sandbox(sandbox_id) as held:
        found = await held.credential_vault.list_bindings()
    show([record(one) for one in found], output, BINDINGS)


@binding.command("get")
@sandbox_argument
@name_argument
@output_option("table", "json", "yaml")
@asynchronous
async def get_binding(invocation: Invocation, sandbox_id: str, name: str, output: str) -> None:
    """Show a binding."""
    async with invocation.sandbox(sandbox_id) as held:
        found = await held.credential_vault.get_binding(name)
    show(record(found), output)


def _read(file: Path) -> dict[str, Any]:
    content = read_json(file)
    if not isinstance(content, dict):
        raise CommandFault(f"{file} must hold a JSON object", ExitCode.USAGE)
    return content
