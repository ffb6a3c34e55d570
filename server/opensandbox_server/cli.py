# SPDX-License-Identifier: Apache-2.0
"""The command line: `opensandbox-server`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opensandbox_server._version import __version__
from opensandbox_server.errors import StartupError
from opensandbox_server.host.ctrl_c import unwinding_on_ctrl_c
from opensandbox_server.settings.settings import (
    DEFAULT_PATH,
    Settings,
    change_settings,
    find_config,
    load_settings,
)
from opensandbox_server.settings.skeleton import EXAMPLES, write_config

log = logging.getLogger(__name__)

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> None:
    """Do one command; what goes wrong is said in a line each."""
    options = parser().parse_args(arguments)
    command: Command = options.command
    try:
        sys.exit(command(options))
    except StartupError as fault:
        for line in str(fault).splitlines():
            print(f"opensandbox-server: {line}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def parser() -> argparse.ArgumentParser:
    """Describe every command and flag."""
    top = argparse.ArgumentParser(
        prog="opensandbox-server",
        description="Serve sandboxes. Without a command it serves until SIGTERM.",
    )
    top.add_argument("--version", action="version", version=__version__)
    _add_serve_flags(top, is_top=True)
    top.set_defaults(command=_serve)
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    serve = commands.add_parser("serve", help="serve until SIGTERM (the default)")
    _add_serve_flags(serve, is_top=False)
    serve.set_defaults(command=_serve)
    _add_init_config(commands)
    doctor = commands.add_parser(
        "doctor", help="tell what works on this host and how to fix the rest"
    )
    _add_place_flags(doctor, is_top=False)
    doctor.set_defaults(command=_doctor)
    _add_systemd_unit(commands)
    _add_images(commands)
    _add_leftovers(commands)
    migrate = commands.add_parser("migrate-snapshots", help="move snapshot records to PostgreSQL")
    migrate.add_argument("--from", dest="source", metavar="SQLITE", help="the database to read")
    migrate.add_argument("--to", metavar="DSN", required=True, help="the database to write")
    migrate.add_argument("--dry-run", action="store_true", help="only say what would be done")
    migrate.set_defaults(command=_migrate)
    return top


def _add_config_flag(to: argparse.ArgumentParser, *, is_top: bool) -> None:
    # A command's own default would replace what was said before the command.
    default: Any = None if is_top else argparse.SUPPRESS
    text = f"config file (default: $SANDBOX_CONFIG_PATH, else {DEFAULT_PATH} when it exists)"
    to.add_argument("--config", type=Path, metavar="PATH", default=default, help=text)


def _add_place_flags(to: argparse.ArgumentParser, *, is_top: bool) -> None:
    default: Any = None if is_top else argparse.SUPPRESS
    _add_config_flag(to, is_top=is_top)
    to.add_argument(
        "--data-dir", type=Path, default=default, help="keep everything here (server.data_dir)"
    )
    to.add_argument("--runtime", default=default, help="make sandboxes with this (runtime.type)")


def _add_address_flags(to: argparse.ArgumentParser, *, is_top: bool) -> None:
    default: Any = None if is_top else argparse.SUPPRESS
    to.add_argument("--host", default=default, help="listen on this address (server.host)")
    to.add_argument("--port", type=int, default=default, help="listen on this port (server.port)")


def _add_serve_flags(to: argparse.ArgumentParser, *, is_top: bool) -> None:
    no: Any = False if is_top else argparse.SUPPRESS
    _add_place_flags(to, is_top=is_top)
    _add_address_flags(to, is_top=is_top)
    to.add_argument(
        "--stop-sandboxes", action="store_true", default=no, help="end all sandboxes at the end"
    )
    to.add_argument("--reload", action="store_true", default=no, help="refused: restart the server")


def _add_init_config(commands: Any) -> None:
    init = commands.add_parser("init-config", help="write a config file to start from")
    init.add_argument("path", nargs="?", type=Path, default=DEFAULT_PATH, metavar="PATH")
    init.add_argument("--example", choices=list(EXAMPLES), help="a short file for one runtime")
    init.add_argument("--force", action="store_true", help="replace a file that exists")
    init.set_defaults(command=_init_config)


def _add_systemd_unit(commands: Any) -> None:
    text = "print a unit of systemd that serves with these flags"
    command = commands.add_parser("systemd-unit", help=text, description=text)
    _add_place_flags(command, is_top=False)
    _add_address_flags(command, is_top=False)
    command.set_defaults(command=_systemd_unit)


def _add_images(commands: Any) -> None:
    images = commands.add_parser("images", help="the images sandboxes are made from")
    verbs = images.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(verb: str, text: str) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = verbs.add_parser(verb, help=text, description=text)
        _add_config_flag(command, is_top=False)
        command.add_argument(
            "--data-dir", type=Path, default=argparse.SUPPRESS, help="server.data_dir"
        )
        command.set_defaults(command=_images, verb=verb)
        return command

    imports = add("import", "take an image from a docker-archive, an OCI layout or a rootfs tar")
    imports.add_argument("file", type=Path)
    imports.add_argument("--name", help="name of the image (default: that of the file)")
    build = add("build", "build an image from a recipe")
    build.add_argument("recipe")
    build.add_argument("--mirror", default="", help="where Debian's packages come from")
    build.add_argument(
        "--build-arg", action="append", default=[], metavar="NAME=VALUE", help="as docker build's"
    )
    pull = add("pull", "fetch an image from a registry")
    pull.add_argument("reference")
    pull.add_argument("--username", help="log in; the password is read from standard input")
    add("list", "show what is there")
    add("remove", "remove an image").add_argument("name")


def _add_leftovers(commands: Any) -> None:
    text = "what the server does not understand and leaves as it is"
    leftovers = commands.add_parser("leftovers", help=text, description=text)
    verbs = leftovers.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for verb, said in (
        ("list", "show what is left over and why"),
        ("adopt", "make them sandboxes of this server again, as far as can be"),
        ("drop", "end what runs there and remove it for good"),
    ):
        command = verbs.add_parser(verb, help=said, description=said)
        _add_place_flags(command, is_top=False)
        command.set_defaults(command=_leftovers, verb=verb)
        if verb != "list":
            command.add_argument("names", nargs="+", metavar="NAME")


def _settings(options: argparse.Namespace) -> Settings:
    settings = load_settings(find_config(options.config, os.environ), os.environ)
    given = {"host": options.host, "port": options.port, "data_dir": options.data_dir}
    server = {name: value for name, value in given.items() if value is not None}
    return change_settings(settings, server, options.runtime)


def _serve(options: argparse.Namespace) -> int:
    from opensandbox_server.serve import serve
    from opensandbox_server.telemetry.logs import set_up_logs

    if options.reload:
        raise StartupError("--reload is not supported: restart the server, sandboxes go on running")
    settings = _settings(options)
    set_up_logs(settings.log)
    for key in settings.ignored:
        log.warning("%s means nothing to this server", key)
    with unwinding_on_ctrl_c():
        serve(settings, stops_sandboxes=options.stop_sandboxes)
    return 0


def _init_config(options: argparse.Namespace) -> int:
    path = options.path.expanduser()
    write_config(path, options.example, force=options.force)
    print(f"wrote {path}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from opensandbox_server.commands.doctor import examine, report

    with unwinding_on_ctrl_c():
        findings = asyncio.run(examine(_settings(options)))
    print(report(findings), end="")
    return 0 if all(finding.is_ok for finding in findings) else 1


def _systemd_unit(options: argparse.Namespace) -> int:
    from opensandbox_server.commands.systemd_unit import unit

    settings, config = _settings(options), find_config(options.config, os.environ)
    given = {
        "--config": config.resolve() if config else None,
        "--data-dir": settings.data_dir.resolve(),
        "--runtime": options.runtime,
        "--host": options.host,
        "--port": options.port,
    }
    flags = [[name, str(value)] for name, value in given.items() if value is not None]
    print(unit(settings, [word for pair in flags for word in pair]), end="")
    return 0


def _images(options: argparse.Namespace) -> int:
    from opensandbox_server.commands import images as do
    from opensandbox_server.runtimes.base import RuntimeFault
    from opensandbox_server.runtimes.oci.images import ImageStore

    store = ImageStore(_settings(options).data_dir)
    work = {
        "import": lambda: do.import_(store, options.file, options.name),
        "build": lambda: do.build(store, options.recipe, options.mirror, options.build_arg),
        "pull": lambda: do.pull(store, options.reference, _login(options.username)),
        "list": lambda: do.list_(store),
        "remove": lambda: do.remove(store, options.name),
    }
    try:
        with unwinding_on_ctrl_c():
            print(asyncio.run(work[options.verb]()), end="")
    except (RuntimeFault, OSError) as fault:
        raise do.explain(fault) from fault
    return 0


def _leftovers(options: argparse.Namespace) -> int:
    from opensandbox_server.commands import leftovers as do

    settings = _settings(options)
    if options.verb == "list":
        print(do.list_(settings), end="")
    else:
        work = do.adopt if options.verb == "adopt" else do.drop
        print(work(settings, options.names), end="")
    return 0


def _login(username: str | None) -> tuple[str, str] | None:
    return (username, sys.stdin.readline().rstrip("\n")) if username else None


def _migrate(_: argparse.Namespace) -> int:
    raise StartupError("migrate-snapshots: this version keeps its store in sqlite only")
