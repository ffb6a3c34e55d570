# SPDX-License-Identifier: Apache-2.0
"""``osb code``: code in a sandbox, piece by piece."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opensandbox_cli.arguments import SANDBOX_ID
from opensandbox_cli.creation import creation_options, temporary
from opensandbox_cli.failures import CommandFault, ExitCode
from opensandbox_cli.invocation import Invocation, asynchronous

if TYPE_CHECKING:
    from opensandbox import Sandbox


@click.command()
@click.argument("sandbox_id", metavar="[ID]", required=False, type=SANDBOX_ID)
@click.option("-l", "--language", default="python", help="What it is written in; python.")
@click.option("-c", "--code", "text", help="Run this, and nothing else.")
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory that pictures are written to.",
)
@creation_options
@asynchronous
async def code(
    invocation: Invocation,
    /,
    sandbox_id: str | None,
    language: str,
    text: str | None,
    save: Path | None,
    **flags: Any,
) -> None:
    """Run code in a sandbox; variables stay.

    On a terminal it asks for more until Ctrl-D, and Ctrl-C interrupts code that runs. Code that is
    piped in, or given with -c, is run as one piece, and osb exits with 1 when it fails. Without an
    ID it makes a sandbox, as run does, and ends it at the end.
    """
    if sandbox_id is None:
        async with temporary(invocation, flags) as sandbox:
            is_well = await _run(sandbox, language, text, save)
    else:
        if named := [name for name, value in flags.items() if value]:
            flag = f"--{named[0].replace('_', '-')}"
            raise CommandFault(f"{flag} is for a new sandbox; leave it or the ID", ExitCode.USAGE)
        async with invocation.sandbox(sandbox_id, is_quiet=True) as sandbox:
            is_well = await _run(sandbox, language, text, save)
    if not is_well:
        raise click.exceptions.Exit(ExitCode.FAILED)


async def _run(sandbox: Sandbox, language: str, text: str | None, save: Path | None) -> bool:
    from opensandbox.exceptions import SandboxException
    from opensandbox_cli.cells import Cells

    context = await sandbox.codes.create_context(language)
    try:
        return await Cells(sandbox, context, save).run(text)
    finally:
        with suppress(SandboxException):  # it has gone with its sandbox
            await sandbox.codes.delete_context(str(context.id))
