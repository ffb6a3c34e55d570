# SPDX-License-Identifier: Apache-2.0
"""``osb completion``: what makes a shell complete osb."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")

# A zsh whose start file does not turn completion on has no compdef.
_COMPINIT = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete osb.

    \b
    bash: osb completion bash >> ~/.bashrc
    zsh:  osb completion zsh >> ~/.zshrc
    fish: osb completion fish > ~/.config/fish/completions/osb.fish
    """
    from click.shell_completion import get_completion_class

    root = ctx.find_root()
    program = root.info_name or "osb"
    variable = f"_{program}_COMPLETE".replace("-", "_").upper()
    kind = get_completion_class(shell)
    assert kind is not None, "click completes these shells"
    source = kind(root.command, {}, program, variable).source()
    click.echo(source.replace("    compdef ", f"    {_COMPINIT}\n    compdef "))
