# SPDX-License-Identifier: Apache-2.0
"""``osb run`` and ``osb exec``: a command in a sandbox, as if it ran here."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from opensandbox_cli.arguments import (
    DURATION,
    PAIR,
    Pairs,
    WordsCommand,
    command_words,
    sandbox_argument,
)
from opensandbox_cli.creation import creation_options, temporary
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.plain_text import without_controls

if TYPE_CHECKING:
    from opensandbox import Sandbox

workdir_option = click.option("-w", "--workdir", help="Where it runs.")
limit_option = click.option("--limit", type=DURATION, help="End the command after so long.")
terminal_option = click.option("--tty", is_flag=True, help="Give it a terminal, as shell does.")


@click.command(cls=WordsCommand)
@creation_options
@workdir_option
@limit_option
@terminal_option
@click.option("--keep", is_flag=True, help="Leave the sandbox alive and print its id at the end.")
@command_words
@asynchronous
async def run(
    invocation: Invocation,
    /,
    words: tuple[str, ...],
    workdir: str | None,
    limit: timedelta | None,
    tty: bool,
    keep: bool,
    **flags: Any,
) -> None:
    """Run a command in a sandbox made for it.

    Input, output and errors pass through, osb exits with the code of the command, and the sandbox
    is ended, also by Ctrl-C. A single word is shell text; several are a program and its arguments.
    """
    async with temporary(invocation, flags, is_kept=keep) as sandbox:
        code = await _run(sandbox, words, workdir, limit, {}, has_terminal=tty)
    if keep:
        click.echo(f"osb: kept {sandbox.id}; end it with: osb sandbox kill {sandbox.id}", err=True)
    raise click.exceptions.Exit(code)


@click.command("exec", cls=WordsCommand)
@sandbox_argument
@click.option("-e", "--env", type=PAIR, multiple=True, help="A variable; repeatable.")
@workdir_option
@limit_option
@terminal_option
@command_words
@asynchronous
async def exec_(
    invocation: Invocation,
    sandbox_id: str,
    words: tuple[str, ...],
    env: Pairs,
    workdir: str | None,
    limit: timedelta | None,
    tty: bool,
) -> None:
    """Run a command in a sandbox that exists.

    As run does: input, output and errors pass through, and osb exits with the code of the command.
    """
    async with invocation.sandbox(sandbox_id, is_quiet=True) as sandbox:
        code = await _run(sandbox, words, workdir, limit, dict(env), has_terminal=tty)
    raise click.exceptions.Exit(code)


async def _run(
    sandbox: Sandbox,
    words: tuple[str, ...],
    workdir: str | None,
    limit: timedelta | None,
    env: dict[str, str],
    *,
    has_terminal: bool,
) -> int:
    from opensandbox.models.execd import RunCommandOpts
    from opensandbox_cli.executing import complaint, execute, exit_code, shell_text

    if has_terminal:
        from opensandbox_cli.terminal import converse

        return await converse(sandbox, working_directory=workdir, command=shell_text(words))
    opts = RunCommandOpts(working_directory=workdir, timeout=limit, envs=env or None)
    command = words[0] if len(words) == 1 else list(words)
    execution = await execute(sandbox, command, opts)
    if reason := complaint(execution):
        click.echo(f"osb: {without_controls(reason)}", err=True)
    return exit_code(execution)
