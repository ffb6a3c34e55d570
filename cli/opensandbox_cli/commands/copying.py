# SPDX-License-Identifier: Apache-2.0
"""``osb cp``: files and directories, in and out."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opensandbox_cli.failures import CommandFault, ExitCode
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.plain_text import without_controls
from opensandbox_cli.progress import ProgressBar

if TYPE_CHECKING:
    from opensandbox import Sandbox

NAMED_LINKS = 10
"""How many links that were not copied are named."""

# A letter or figure first and no slash: `./a:b` is always a local path.
_REMOTE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*):(.*)", re.DOTALL)


@dataclass(frozen=True)
class Remote:
    """A path in a sandbox."""

    sandbox_id: str
    path: str


def parse_place(text: str) -> Remote | Path:
    """Read ``ID:/path`` as a place in a sandbox and anything else as a local path."""
    found = _REMOTE.fullmatch(text)
    return Remote(found[1], found[2] or ".") if found else Path(text)


@click.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@asynchronous
async def cp(invocation: Invocation, source: str, target: str) -> None:
    """Copy files and directories in or out.

    One side is in a sandbox, written ID:/path. Directories are copied whole; into a directory that
    exists, under their own name. A link is copied as a link; one that leads out of a directory
    that comes from a sandbox is left out and named. A terminal shows how far it is.

    \b
    osb cp report.py ID:/workspace/
    osb cp ID:/workspace/results ./results
    """
    match parse_place(source), parse_place(target):
        case Path() as local, Remote() as remote:
            await _copy_in(invocation, local, remote)
        case Remote() as remote, Path() as local:
            await _copy_out(invocation, remote, local)
        case Remote(), Remote():
            message = "cp copies in or out; from one sandbox to another copy twice"
            raise CommandFault(message, ExitCode.USAGE)
        case _:
            message = "one side must be in a sandbox: osb cp FILE ID:/path"
            raise CommandFault(message, ExitCode.USAGE)


async def _copy_in(invocation: Invocation, local: Path, remote: Remote) -> None:
    if not local.exists():
        raise CommandFault(f"{local} does not exist; check the path")
    async with invocation.sandbox(remote.sandbox_id, is_quiet=True) as sandbox:
        target = remote.path
        if target.endswith("/") or await _kind_of(sandbox, target) == "directory":
            target = posixpath.join(target, local.resolve().name)
        bar = ProgressBar(local.name)
        if local.is_dir():
            await sandbox.files.upload_directory(local, target, progress=bar)
        else:
            await sandbox.files.upload_file(local, target, progress=bar)
        bar.finish()


async def _copy_out(invocation: Invocation, remote: Remote, local: Path) -> None:
    async with invocation.sandbox(remote.sandbox_id, is_quiet=True) as sandbox:
        kind = await _kind_of(sandbox, remote.path, is_required=True)
        target = local / _name_of(remote.path) if local.is_dir() else local
        if not target.parent.is_dir():
            raise CommandFault(f"{target.parent} is no directory; make it with: mkdir -p")
        bar = ProgressBar(_name_of(remote.path))
        if kind == "directory":
            left_out = await sandbox.files.download_directory(remote.path, target, progress=bar)
        else:
            left_out = {}
            await sandbox.files.download_file(remote.path, target, progress=bar)
        bar.finish()
    _tell(left_out)


def _tell(left_out: Mapping[str, str]) -> None:
    """Name the links that were not copied; the first ones, when there are many."""
    for name, leads_to in islice(left_out.items(), NAMED_LINKS):
        line = f"left out the link {name} to {leads_to}, which leads out of the directory"
        click.echo(f"osb: {without_controls(line)}", err=True)
    if len(left_out) > NAMED_LINKS:
        click.echo(f"osb: and {len(left_out) - NAMED_LINKS} more such links", err=True)


def _name_of(path: str) -> str:
    name = posixpath.basename(posixpath.normpath(path))
    return name if name not in ("", ".", "..", "/") else "root"


async def _kind_of(sandbox: Sandbox, path: str, *, is_required: bool = False) -> str | None:
    from opensandbox.exceptions import SandboxApiException

    try:
        (info,) = (await sandbox.files.get_file_info([path])).values()
    except SandboxApiException as error:
        if is_required or error.status_code != 404:
            raise
        return None
    return info.entry_type
