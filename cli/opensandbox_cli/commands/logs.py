# SPDX-License-Identifier: Apache-2.0
"""``osb logs``: what a sandbox or a command wrote."""

from __future__ import annotations

import asyncio

import click

from opensandbox_cli.arguments import sandbox_argument
from opensandbox_cli.invocation import Invocation, asynchronous

# The server has no stream of an entrypoint's output; this bounds how late a line is shown.
POLL_SECONDS = 1.0
FOLLOWED_LINES = 10000


@click.command()
@sandbox_argument
@click.argument("execution_id", metavar="[XID]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until it ends, or until Ctrl-C.")
@click.option(
    "-n",
    "--tail",
    type=click.IntRange(1, FOLLOWED_LINES),
    default=100,
    show_default=True,
    help="How many of the sandbox's last lines.",
)
@asynchronous
async def logs(
    invocation: Invocation, sandbox_id: str, execution_id: str | None, follow: bool, tail: int
) -> None:
    """Show what a sandbox or a command wrote.

    With XID, the id that command run -d prints, that of the command, from its first byte; otherwise
    that of the entrypoint.
    """
    if execution_id is None:
        await _entrypoint_logs(invocation, sandbox_id, follow=follow, tail=tail)
        return
    from opensandbox_cli.executing import Outputs

    outputs = Outputs()
    async with invocation.sandbox(sandbox_id, is_quiet=True) as sandbox:
        await sandbox.commands.replay(execution_id, follow=follow, handlers=outputs.handlers)
    await outputs.close()


async def _entrypoint_logs(
    invocation: Invocation, sandbox_id: str, *, follow: bool, tail: int
) -> None:
    from opensandbox.exceptions import SandboxApiException
    from opensandbox_cli.streams import OutputStream

    output = OutputStream(1)
    async with invocation.manager("reading the logs") as manager:
        seen = await manager.get_diagnostic_text(sandbox_id, "logs", tail=tail)
    await output.write(seen.encode())
    while follow:
        await asyncio.sleep(POLL_SECONDS)
        try:
            async with invocation.manager() as manager:
                now = await manager.get_diagnostic_text(sandbox_id, "logs", tail=FOLLOWED_LINES)
        except SandboxApiException as error:
            if error.status_code == 404:
                return  # it has ended
            raise
        await output.write(unseen(seen, now).encode())
        seen = now


def unseen(before: str, now: str) -> str:
    """Return what ``now`` has after the end of ``before``, of which it may lack the beginning."""
    if now.startswith(before):
        return now[len(before) :]
    lines = before.splitlines(keepends=True)
    for start in range(len(lines)):
        end = "".join(lines[start:])
        position = now.rfind(end)
        if position >= 0 and (start or position == 0 or now[position - 1] == "\n"):
            return now[position + len(end) :]
    return now
