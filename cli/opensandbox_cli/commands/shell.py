# SPDX-License-Identifier: Apache-2.0
"""``osb shell``: a terminal in a sandbox."""

from __future__ import annotations

from typing import Any

import click

from opensandbox_cli.arguments import SANDBOX_ID
from opensandbox_cli.creation import creation_options, temporary
from opensandbox_cli.failures import CommandFault, ExitCode
from opensandbox_cli.invocation import Invocation, asynchronous


@click.command()
@click.argument("sandbox_id", metavar="[ID]", required=False, type=SANDBOX_ID)
@creation_options
@click.option("-w", "--workdir", help="Where the shell starts.")
@asynchronous
async def shell(
    invocation: Invocation, /, sandbox_id: str | None, workdir: str | None, **flags: Any
) -> None:
    """Open a terminal in a sandbox.

    Without an ID it makes a sandbox, as run does, and ends it with the shell. osb exits with the
    code of the shell.
    """
    from opensandbox_cli.terminal import converse

    if sandbox_id is None:
        async with temporary(invocation, flags) as sandbox:
            code = await converse(sandbox, working_directory=workdir)
    else:
        if named := [name for name, value in flags.items() if value]:
            flag = f"--{named[0].replace('_', '-')}"
            raise CommandFault(f"{flag} is for a new sandbox; leave it or the ID", ExitCode.USAGE)
        async with invocation.sandbox(sandbox_id, is_quiet=True) as sandbox:
            code = await converse(sandbox, working_directory=workdir)
    raise click.exceptions.Exit(code)
