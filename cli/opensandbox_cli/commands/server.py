# SPDX-License-Identifier: Apache-2.0
"""``osb server``: a server on this machine, in the foreground."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from opensandbox_cli.failures import CommandFault

PROGRAM = "opensandbox-server"


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": ["-h"],
    }
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def server(arguments: tuple[str, ...]) -> None:
    """Start a server on this machine.

    It serves in the foreground until Ctrl-C. Everything that follows goes to opensandbox-server,
    such as --port 8080, doctor or --help.
    """
    program = find_program(PROGRAM)
    if program is None:
        advice = f"install it with: pip install {PROGRAM}"
        raise CommandFault(f"{PROGRAM} is not installed; {advice}")
    os.execv(program, [PROGRAM, *arguments])


def find_program(name: str) -> str | None:
    """Look beside this program first: an environment that has both need not be on the PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)
