# SPDX-License-Identifier: Apache-2.0
"""``osb file``: read, write and arrange files in a sandbox."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from opensandbox_cli.arguments import MODE, output_option, owner_options, sandbox_argument
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.output import record, show
from opensandbox_cli.plain_text import shown
from opensandbox_cli.progress import ProgressBar

COLUMNS = {
    "MODE": "mode",
    "OWNER": "owner",
    "GROUP": "group",
    "SIZE": "size",
    "MODIFIED": "modified_at",
    "TYPE": "entry_type",
    "PATH": "path",
}
path_argument = click.argument("path", metavar="PATH")
paths_argument = click.argument("paths", metavar="PATH...", nargs=-1, required=True)


@click.group()
def file() -> None:
    """Read, write and arrange files."""


@file.command()
@sandbox_argument
@path_argument
@click.option("--encoding", default="utf-8", show_default=True, help="What the file is in.")
@asynchronous
async def cat(invocation: Invocation, sandbox_id: str, path: str, encoding: str) -> None:
    """Print a file. In UTF-8 the bytes pass as they are."""
    from opensandbox_cli.streams import OutputStream

    output = OutputStream(sys.stdout.fileno())
    async with invocation.sandbox(sandbox_id, is_quiet=True) as sandbox:
        if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
            async for chunk in await sandbox.files.read_bytes_stream(path):
                await output.write(chunk)
        else:
            text = await sandbox.files.read_file(path, encoding=encoding)
            await output.write(text.encode())
    await output.close()


@file.command()
@sandbox_argument
@path_argument
@click.option("-c", "--content", help="The text; standard input without it.")
@click.option("--encoding", default="utf-8", show_default=True, help="How to write the text.")
@click.option("--mode", type=MODE, default="755", show_default=True, help="Octal digits.")
@owner_options
@asynchronous
async def write(
    invocation: Invocation,
    sandbox_id: str,
    path: str,
    content: str | None,
    encoding: str,
    mode: int,
    owner: str | None,
    group: str | None,
) -> None:
    """Write a file, and the directories above it."""
    data = io.BufferedReader(io.FileIO(0, closefd=False)) if content is None else content
    async with invocation.sandbox(sandbox_id, "writing the file") as sandbox:
        await sandbox.files.write_file(
            path, data, encoding=encoding, mode=mode, owner=owner, group=group
        )
    click.echo(f"wrote {path}")


@file.command()
@sandbox_argument
@click.argument("local", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("remote")
@asynchronous
async def upload(invocation: Invocation, sandbox_id: str, local: Path, remote: str) -> None:
    """Copy a file into a sandbox; directories go with: osb cp"""
    bar = ProgressBar(local.name)
    async with invocation.sandbox(sandbox_id, is_quiet=True) as sandbox:
        await sandbox.files.upload_file(local, remote, progress=bar)
    bar.finish()
    click.echo(f"wrote {remote}")


@file.command()
@sandbox_argument
@click.argument("remote")
@click.argument("local", type=click.Path(path_type=Path))
@asynchronous
async def download(invocation: Invocation, sandbox_id: str, remote: str, local: Path) -> None:
    """Copy a file out of a sandbox; directories go with: osb cp"""
    bar = ProgressBar(Path(remote).name)
    async with invocation.sandbox(sandbox_id, is_quiet=True) as sandbox:
        await sandbox.files.download_file(remote, local, progress=bar)
    bar.finish()
    click.echo(f"wrote {local}")


@file.command()
@sandbox_argument
@paths_argument
@asynchronous
async def rm(invocation: Invocation, sandbox_id: str, paths: tuple[str, ...]) -> None:
    """Delete files."""
    async with invocation.sandbox(sandbox_id) as sandbox:
        await sandbox.files.delete_files(paths)
    _say("deleted", paths)


@file.command()
@sandbox_argument
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@asynchronous
async def mv(invocation: Invocation, sandbox_id: str, source: str, target: str) -> None:
    """Move a file or directory."""
    from opensandbox.models.filesystem import MoveEntry

    async with invocation.sandbox(sandbox_id) as sandbox:
        await sandbox.files.move_files([MoveEntry(src=source, dest=target)])
    click.echo(f"moved {source} to {target}")


@file.command()
@sandbox_argument
@paths_argument
@click.option("--mode", type=MODE, default="755", show_default=True, help="Octal digits.")
@owner_options
@asynchronous
async def mkdir(
    invocation: Invocation,
    sandbox_id: str,
    paths: tuple[str, ...],
    mode: int,
    owner: str | None,
    group: str | None,
) -> None:
    """Make directories, and those above them."""
    from opensandbox.models.filesystem import WriteEntry

    entries = [WriteEntry(path=path, mode=mode, owner=owner, group=group) for path in paths]
    async with invocation.sandbox(sandbox_id) as sandbox:
        await sandbox.files.create_directories(entries)
    _say("made", paths)


@file.command()
@sandbox_argument
@paths_argument
@asynchronous
async def rmdir(invocation: Invocation, sandbox_id: str, paths: tuple[str, ...]) -> None:
    """Delete directories with all that is in them."""
    async with invocation.sandbox(sandbox_id) as sandbox:
        await sandbox.files.delete_directories(paths)
    _say("deleted", paths)


@file.command()
@sandbox_argument
@path_argument
@click.option("-p", "--pattern", required=True, help="A pattern of names: '*.py'.")
@output_option("table", "json", "yaml", "raw")
@asynchronous
async def search(
    invocation: Invocation, sandbox_id: str, path: str, pattern: str, output: str
) -> None:
    """Find files below a path by their names; raw prints the paths alone."""
    from opensandbox.models.filesystem import SearchEntry

    async with invocation.sandbox(sandbox_id) as sandbox:
        found = await sandbox.files.search(SearchEntry(path=path, pattern=pattern))
    if output == "raw":
        for entry in found:
            click.echo(shown(entry.path))
    else:
        show([record(entry) for entry in found], output, COLUMNS)


@file.command()
@sandbox_argument
@paths_argument
@output_option("table", "json", "yaml")
@asynchronous
async def info(
    invocation: Invocation, sandbox_id: str, paths: tuple[str, ...], output: str
) -> None:
    """Show size, owner, mode and times."""
    async with invocation.sandbox(sandbox_id) as sandbox:
        found = await sandbox.files.get_file_info(paths)
    show([record(entry) for entry in found.values()], output, COLUMNS)


@file.command()
@sandbox_argument
@path_argument
@click.option("--mode", type=MODE, required=True, help="Octal digits.")
@owner_options
@asynchronous
async def chmod(
    invocation: Invocation,
    sandbox_id: str,
    path: str,
    mode: int,
    owner: str | None,
    group: str | None,
) -> None:
    """Set mode, owner and group."""
    from opensandbox.models.filesystem import SetPermissionEntry

    entry = SetPermissionEntry(path=path, mode=mode, owner=owner, group=group)
    async with invocation.sandbox(sandbox_id) as sandbox:
        await sandbox.files.set_permissions([entry])
    click.echo(f"changed {path}")


@file.command()
@sandbox_argument
@path_argument
@click.option("--old", required=True, help="The text to replace.")
@click.option("--new", required=True, help="What replaces it.")
@asynchronous
async def replace(invocation: Invocation, sandbox_id: str, path: str, old: str, new: str) -> None:
    """Replace text in a file, everywhere it occurs; exits with 1 when it does not."""
    from opensandbox.models.filesystem import ContentReplaceEntry

    entry = ContentReplaceEntry(path=path, old_content=old, new_content=new)
    async with invocation.sandbox(sandbox_id) as sandbox:
        (done,) = await sandbox.files.replace_contents_detailed([entry])
    click.echo(f"replaced {done.replaced_count} in {path}")
    if not done.replaced_count:
        raise click.exceptions.Exit(1)


def _say(what: str, paths: tuple[str, ...]) -> None:
    for path in paths:
        click.echo(f"{what} {path}")
