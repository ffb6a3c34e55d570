# SPDX-License-Identifier: Apache-2.0
"""The command line: `opensandbox-mcp`."""

import argparse
import os
import secrets
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from opensandbox.config import ConnectionConfig
from opensandbox_mcp._version import __version__
from opensandbox_mcp.ctrl_c import unwinding_on_ctrl_c
from opensandbox_mcp.settings import (
    DEFAULT_IMAGE,
    DEFAULT_WORKSPACE_TIMEOUT,
    Settings,
    WorkspaceSettings,
)

TOKEN_VARIABLE = "OPENSANDBOX_MCP_TOKEN"  # noqa: S105


class UsageError(Exception):
    """The command line asks for something that cannot be done."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve; what goes wrong before is said in a line."""
    options = parser().parse_args(arguments)
    try:
        _serve(options)
    except (UsageError, OSError) as fault:
        print(f"opensandbox-mcp: {fault}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def parser() -> argparse.ArgumentParser:
    """Describe every flag."""
    top = argparse.ArgumentParser(
        prog="opensandbox-mcp",
        description="Offer sandboxes to an agent over the Model Context Protocol.",
    )
    top.add_argument("--version", action="version", version=__version__)
    top.add_argument(
        "--transport",
        choices=["stdio", "streamable-http"],
        default="stdio",
        help="how clients connect (default: %(default)s)",
    )
    _add_connection(top.add_argument_group("OpenSandbox server"))
    _add_workspace(top.add_argument_group("workspace"))
    _add_http(top.add_argument_group("streamable-http"))
    return top


def _add_connection(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--api-key",
        help="API key (default: $OPEN_SANDBOX_API_KEY); every user of the machine can see a flag",
    )
    group.add_argument("--api-key-file", type=Path, metavar="PATH", help="file with the API key")
    group.add_argument(
        "--domain", help="its address (default: $OPEN_SANDBOX_DOMAIN, else localhost:8080)"
    )
    group.add_argument(
        "--protocol", choices=["http", "https"], default="http", help="(default: %(default)s)"
    )
    group.add_argument(
        "--request-timeout-seconds",
        type=_positive,
        default=30.0,
        metavar="SECONDS",
        help="bounds one request (default: 30)",
    )
    group.add_argument(
        "--use-server-proxy", action="store_true", help="reach sandboxes through the server only"
    )


def _add_workspace(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--workspace",
        action="store_true",
        help="give each conversation one sandbox of its own; tools then need no sandbox_id",
    )
    group.add_argument(
        "--image", default=DEFAULT_IMAGE, help="what it is made from (default: %(default)s)"
    )
    seconds = int(DEFAULT_WORKSPACE_TIMEOUT.total_seconds())
    group.add_argument(
        "--timeout",
        type=_positive,
        default=seconds,
        metavar="SECONDS",
        help="end it when it was not used for so long (default: %(default)s)",
    )
    group.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable in it; repeat"
    )
    group.add_argument(
        "--keep", action="store_true", help="do not end it with its conversation, only by --timeout"
    )


def _add_http(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--host", default="127.0.0.1", help="listen here (default: %(default)s)")
    group.add_argument(
        "--port", type=int, default=8000, help="and here; 0 takes a free one (default: %(default)s)"
    )
    group.add_argument(
        "--token-file",
        type=Path,
        metavar="PATH",
        help=f"file with the token clients must send (default: ${TOKEN_VARIABLE}, else a new one,"
        " which is printed)",
    )
    group.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="another Host; repeat"
    )
    group.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="an Origin of pages that may connect; repeat",
    )


def _serve(options: argparse.Namespace) -> None:
    from opensandbox_mcp.server import build_server

    server = build_server(_settings(options))
    if options.transport == "stdio":
        from opensandbox_mcp.stdio import serve_stdio

        with unwinding_on_ctrl_c():
            serve_stdio(server)
        return
    from opensandbox_mcp.http import HTTPSettings, serve_http

    settings = HTTPSettings(
        host=options.host,
        port=options.port,
        token=_token(options.token_file),
        allowed_hosts=options.allow_host,
        allowed_origins=options.allow_origin,
    )
    with unwinding_on_ctrl_c():
        serve_http(server, settings)


def _settings(options: argparse.Namespace) -> Settings:
    connection = ConnectionConfig(
        api_key=_api_key(options),
        domain=options.domain,
        protocol=options.protocol,
        request_timeout=timedelta(seconds=options.request_timeout_seconds),
        use_server_proxy=options.use_server_proxy,
        user_agent=f"opensandbox-mcp/{__version__}",
    )
    workspace = None
    if options.workspace:
        workspace = WorkspaceSettings(
            image=options.image,
            timeout=timedelta(seconds=options.timeout),
            env=dict(map(_variable, options.env)),
            is_kept=options.keep,
        )
    return Settings(connection=connection, workspace=workspace)


def _api_key(options: argparse.Namespace) -> str | None:
    if options.api_key_file is None:
        key: str | None = options.api_key
        return key
    if options.api_key:
        raise UsageError("--api-key and --api-key-file are one too many")
    text: str = options.api_key_file.read_text().strip()
    if not text:
        raise UsageError(f"{options.api_key_file} is empty; put the server's key into it")
    return text


def _token(file: Path | None) -> str:
    token = (file.read_text() if file else os.environ.get(TOKEN_VARIABLE, "")).strip()
    if not (token.isascii() and token.isprintable()):
        raise UsageError("the token may have visible ASCII characters only, on one line")
    if token:
        return token
    if file:
        raise UsageError(f"{file} is empty; put a token of your choice into it")
    token = secrets.token_urlsafe(32)
    print(f"opensandbox-mcp: clients must send this token: {token}", file=sys.stderr)
    return token


def _variable(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise UsageError(f"--env {text}: write NAME=VALUE")
    return name, value


def _positive(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("must be a positive number of seconds")
    return seconds
