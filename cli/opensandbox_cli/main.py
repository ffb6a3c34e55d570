# SPDX-License-Identifier: Apache-2.0
"""``osb``: the global flags, the table of commands, and the one place where errors become lines."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from opensandbox_cli._version import __version__
from opensandbox_cli.failures import ExitCode, Interrupted, explain
from opensandbox_cli.invocation import Invocation
from opensandbox_cli.lazy import LazyGroup, Place
from opensandbox_cli.settings import Settings, load_settings

_COMMANDS = "opensandbox_cli.commands"

PLACES: Mapping[str, Place] = {
    "run": Place(f"{_COMMANDS}.run", "run", "Run a command in a sandbox made for it."),
    "shell": Place(f"{_COMMANDS}.shell", "shell", "Open a terminal in a sandbox."),
    "code": Place(f"{_COMMANDS}.code", "code", "Run code in a sandbox; variables stay."),
    "exec": Place(f"{_COMMANDS}.run", "exec_", "Run a command in a sandbox that exists."),
    "cp": Place(f"{_COMMANDS}.copying", "cp", "Copy files and directories in or out."),
    "port-forward": Place(
        f"{_COMMANDS}.forwarding", "port_forward", "Make ports of a sandbox local ones."
    ),
    "logs": Place(f"{_COMMANDS}.logs", "logs", "Show what a sandbox or a command wrote."),
    "top": Place(f"{_COMMANDS}.top", "top", "Show what the sandboxes use, live."),
    "sandbox": Place(f"{_COMMANDS}.sandbox", "sandbox", "Make, list, inspect and end sandboxes."),
    "command": Place(f"{_COMMANDS}.command", "command", "Run and follow commands."),
    "file": Place(f"{_COMMANDS}.file", "file", "Read, write and arrange files."),
    "snapshot": Place(f"{_COMMANDS}.snapshot", "snapshot", "Keep the files of a sandbox."),
    "template": Place(f"{_COMMANDS}.template", "template", "Prepare images for fast starts."),
    "egress": Place(f"{_COMMANDS}.egress", "egress", "Show and change what may go out."),
    "credential-vault": Place(
        f"{_COMMANDS}.vault", "credential_vault", "Secrets that a sandbox uses and never sees."
    ),
    "diagnostics": Place(f"{_COMMANDS}.diagnostics", "diagnostics", "Logs and events by scope."),
    "devops": Place(f"{_COMMANDS}.devops", "devops", "Look into a sandbox that misbehaves."),
    "config": Place(f"{_COMMANDS}.config", "config", "Show and change the settings of osb."),
    "skills": Place(f"{_COMMANDS}.skills", "skills", "Teach coding tools to use osb."),
    "server": Place(f"{_COMMANDS}.server", "server", "Start a server on this machine."),
    "completion": Place(
        f"{_COMMANDS}.completion", "completion", "Print what makes a shell complete osb."
    ),
}

# These exit with the code of what they run, so their own failures need another one.
_RUN_OTHERS = {"run", "exec", "shell"}

FLAGS = {
    "api_key": "connection.api_key",
    "domain": "connection.domain",
    "protocol": "connection.protocol",
    "request_timeout": "connection.request_timeout",
    "use_server_proxy": "connection.use_server_proxy",
}


class Root(LazyGroup):
    """The top of the tree. Whatever a command raises becomes one line and a code here."""

    def invoke(self, ctx: click.Context) -> Any:
        """Do the command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Interrupted as end:
            ctx.exit(end.exit_code)
        except BrokenPipeError:
            ctx.exit(_nobody_reads())
        except Exception as error:  # noqa: BLE001 - a person gets a line; -v shows the rest
            code = _report(ctx, error)
            ctx.exit(ExitCode.NOT_STARTED if ctx.invoked_subcommand in _RUN_OTHERS else code)


@click.command(
    cls=Root,
    places=PLACES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Every command has its own --help. Start here: osb run -- echo hello",
)
@click.option("--api-key", help="The server's key; better by $OPEN_SANDBOX_API_KEY.")
@click.option("--domain", help="Where the server is ($OPEN_SANDBOX_DOMAIN; localhost:8080).")
@click.option(
    "--protocol", type=click.Choice(["http", "https"]), help="How to reach it; http by default."
)
@click.option(
    "--request-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SEC",
    help="Seconds to wait for an answer; 30 by default.",
)
@click.option(
    "--use-server-proxy/--no-use-server-proxy",
    default=None,
    help="Reach sandboxes through the server.",
)
@click.option(
    "--config",
    "config_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Config file; ~/.opensandbox/config.toml by default.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show requests, and tracebacks of errors.")
@click.option("--no-color", is_flag=True, help="Print without colours (also $NO_COLOR).")
@click.version_option(__version__, message="osb %(version)s")
@click.pass_context
def osb(ctx: click.Context, /, verbose: bool, no_color: bool, **_: Any) -> None:
    """OpenSandbox from a shell: make sandboxes, run commands in them, move files."""
    settings = settings_of(ctx, os.environ)
    ctx.obj = Invocation(settings, is_verbose=verbose)
    if no_color or os.environ.get("NO_COLOR") or settings.get("output.color") is False:
        ctx.color = False
    if verbose:
        import logging

        logging.basicConfig(level=logging.DEBUG, format="osb: %(name)s: %(message)s")
        logging.getLogger("asyncio").setLevel(logging.INFO)


def settings_of(ctx: click.Context, environ: Mapping[str, str]) -> Settings:
    """Return the settings of a command line, its file and the environment."""
    root = ctx.find_root()
    flags = {key: root.params.get(flag) for flag, key in FLAGS.items()}
    path = root.params.get("config_path")
    # A file that was named must exist, except for the commands that make it.
    is_required = path is not None and root.invoked_subcommand != "config"
    return load_settings(flags, environ, path, is_required=is_required)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Do one command and exit."""
    try:
        code = osb.main(arguments, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        code = _complain(error)
    except click.Abort:
        code = 128 + signal.SIGINT
    except BrokenPipeError:
        code = _nobody_reads()
    sys.exit(code if isinstance(code, int) else 0)


def _complain(error: click.ClickException) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()  # a group alone: its help is what was wanted
        return error.exit_code
    message = " ".join(error.format_message().split()).rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    advice = f"; see: {context.command_path} {context.help_option_names[-1]}" if context else ""
    color = context.color if context else None
    click.echo(f"{click.style('osb:', fg='red')} {message}{advice}", err=True, color=color)
    return error.exit_code


def _nobody_reads() -> int:
    """End quietly, as ``osb … | head -1`` wants it; the interpreter must not find it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 128 + signal.SIGPIPE


def _report(ctx: click.Context, error: Exception) -> int:
    if ctx.params.get("verbose"):
        import traceback

        traceback.print_exception(error)
    invocation = ctx.find_object(Invocation)
    failure = explain(error, invocation.server if invocation else "")
    click.echo(f"{click.style('osb:', fg='red')} {failure.line}", err=True)
    return failure.exit_code
