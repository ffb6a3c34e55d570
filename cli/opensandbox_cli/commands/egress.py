# SPDX-License-Identifier: Apache-2.0
"""``osb egress``: what may go out of a sandbox."""

from __future__ import annotations

import click

from opensandbox_cli.arguments import PAIR, Pairs, output_option, sandbox_argument
from opensandbox_cli.failures import CommandFault, ExitCode
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.output import record, show


@click.group()
def egress() -> None:
    """Show and change what may go out."""


@egress.command()
@sandbox_argument
@output_option("table", "json", "yaml")
@asynchronous
async def get(invocation: Invocation, sandbox_id: str, output: str) -> None:
    """Show the policy in force."""
    async with invocation.sandbox(sandbox_id) as held:
        policy = await held.get_egress_policy()
    show(record(policy), output)


@egress.command()
@sandbox_argument
@click.option(
    "--rule",
    "rules",
    type=PAIR,
    multiple=True,
    required=True,
    metavar="ACTION=TARGET",
    help="allow=pypi.org or deny=*.example.com; repeatable.",
)
@asynchronous
async def patch(invocation: Invocation, sandbox_id: str, rules: Pairs) -> None:
    """Add rules, or change those for the same target."""
    from opensandbox.models.sandboxes import NetworkRule

    for action, _ in rules:
        if action not in ("allow", "deny"):
            message = f"a rule allows or denies, like --rule allow=pypi.org; not {action!r}"
            raise CommandFault(message, ExitCode.USAGE)
    wanted = [
        NetworkRule.model_validate({"action": action, "target": target}) for action, target in rules
    ]
    async with invocation.sandbox(sandbox_id) as held:
        await held.patch_egress_rules(wanted)
    click.echo(f"changed {len(wanted)} rule{'s' if len(wanted) > 1 else ''} of {sandbox_id}")
