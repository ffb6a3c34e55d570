# SPDX-License-Identifier: Apache-2.0
"""``osb command``: run and follow commands; shells that stay."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from opensandbox_cli.arguments import (
    DURATION,
    WordsCommand,
    command_words,
    output_option,
    sandbox_argument,
)
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.output import record, show
from opensandbox_cli.plain_text import shown, without_controls

if TYPE_CHECKING:
    from opensandbox.models.execd import Execution

execution_argument = click.argument("execution_id", metavar="XID")
session_argument = click.argument("session_id", metavar="SESS")
workdir_option = click.option("-w", "--workdir", help="Where it runs.")
timeout_option = click.option("-t", "--timeout", type=DURATION, help="End it after so long.")


@click.group()
def command() -> None:
    """Run and follow commands."""


@command.command(cls=WordsCommand)
@sandbox_argument
@click.option("-d", "--background", is_flag=True, help="Return at once and print its id.")
@workdir_option
@timeout_option
@click.option("--argv", is_flag=True, help="A program and its arguments, without a shell.")
@output_option("raw", "json", "yaml")
@command_words
@asynchronous
async def run(
    invocation: Invocation,
    sandbox_id: str,
    words: tuple[str, ...],
    background: bool,
    workdir: str | None,
    timeout: timedelta | None,
    argv: bool,
    output: str,
) -> None:
    """Run a command; exits with 1 when it failed or never ended.

    Its words are joined, quoted, into shell text. To exit with its own code use: osb exec
    """
    from opensandbox.models.execd import RunCommandOpts
    from opensandbox_cli.executing import Outputs

    opts = RunCommandOpts(background=background, working_directory=workdir, timeout=timeout)
    program = list(words) if argv else shlex.join(words)
    outputs = Outputs() if output == "raw" and not background else None
    async with invocation.sandbox(sandbox_id, is_quiet=outputs is not None) as sandbox:
        execution = await sandbox.commands.run(
            program, opts=opts, handlers=outputs.handlers if outputs else None
        )
    if background and output == "raw":
        click.echo(shown(execution.id or ""))
    else:
        _finish(execution, output)


@command.command()
@sandbox_argument
@execution_argument
@output_option("table", "json", "yaml")
@asynchronous
async def status(invocation: Invocation, sandbox_id: str, execution_id: str, output: str) -> None:
    """Show what became of a command."""
    async with invocation.sandbox(sandbox_id) as sandbox:
        found = await sandbox.commands.get_command_status(execution_id)
    show(record(found), output)


@command.command()
@sandbox_argument
@execution_argument
@click.option("--cursor", type=click.IntRange(min=0), help="Where the last part ended.")
@output_option("raw", "json", "yaml")
@asynchronous
async def logs(
    invocation: Invocation, sandbox_id: str, execution_id: str, cursor: int | None, output: str
) -> None:
    """Show what a background command has written; the next cursor goes to stderr."""
    async with invocation.sandbox(sandbox_id) as sandbox:
        found = await sandbox.commands.get_background_command_logs(execution_id, cursor)
    if output != "raw":
        show(record(found), output)
        return
    click.echo(shown(found.content), nl=False)
    if found.cursor is not None:
        click.echo(f"cursor: {found.cursor}", err=True)


@command.command()
@sandbox_argument
@execution_argument
@asynchronous
async def interrupt(invocation: Invocation, sandbox_id: str, execution_id: str) -> None:
    """End a running command."""
    async with invocation.sandbox(sandbox_id) as sandbox:
        await sandbox.commands.interrupt(execution_id)
    click.echo(f"interrupted {execution_id}")


@command.group()
def session() -> None:
    """Shells that stay: variables and directory are kept between runs."""


@session.command()
@sandbox_argument
@workdir_option
@output_option("raw", "json", "yaml")
@asynchronous
async def create(invocation: Invocation, sandbox_id: str, workdir: str | None, output: str) -> None:
    """Start a shell that stays, and print its id."""
    async with invocation.sandbox(sandbox_id) as sandbox:
        session_id = await sandbox.commands.create_session(working_directory=workdir)
    if output == "raw":
        click.echo(shown(session_id))
    else:
        show({"sandbox_id": sandbox_id, "session_id": session_id}, output)


@session.command("run", cls=WordsCommand)
@sandbox_argument
@session_argument
@workdir_option
@timeout_option
@output_option("raw", "json", "yaml")
@command_words
@asynchronous
async def run_in_session(
    invocation: Invocation,
    sandbox_id: str,
    session_id: str,
    words: tuple[str, ...],
    workdir: str | None,
    timeout: timedelta | None,
    output: str,
) -> None:
    """Run a command in a session; a single word is shell text: -- 'cd /tmp; pwd'."""
    from opensandbox_cli.executing import Outputs, shell_text

    outputs = Outputs() if output == "raw" else None
    async with invocation.sandbox(sandbox_id, is_quiet=outputs is not None) as sandbox:
        execution = await sandbox.commands.run_in_session(
            session_id,
            shell_text(words),
            working_directory=workdir,
            timeout=timeout,
            handlers=outputs.handlers if outputs else None,
        )
    _finish(execution, output)


@session.command()
@sandbox_argument
@session_argument
@asynchronous
async def delete(invocation: Invocation, sandbox_id: str, session_id: str) -> None:
    """End a session and what runs in it."""
    async with invocation.sandbox(sandbox_id) as sandbox:
        await sandbox.commands.delete_session(session_id)
    click.echo(f"deleted {session_id}")


def _finish(execution: Execution, output: str) -> None:
    if output != "raw":
        show(record(execution), output)
    elif execution.error is not None:
        reason = "; ".join(execution.error.traceback) or execution.error.value
        click.echo(f"osb: {without_controls(reason)}", err=True)
    has_failed = execution.error is not None or execution.exit_code not in (0, None)
    if has_failed or execution.complete is None:
        raise click.exceptions.Exit(1)
