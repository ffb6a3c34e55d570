# SPDX-License-Identifier: Apache-2.0
"""The parts of the documentation that are made from the code.

`python -m tests.repository.derived` writes them; a test compares them. A part is between
`<!-- derived: NAME -->` and `<!-- /derived -->`.
"""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from mcp.server.mcpserver.tools import Tool
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from opensandbox_cli import failures
from opensandbox_cli.main import osb
from opensandbox_mcp.toolbox import build_tool
from opensandbox_mcp.tools import offered
from opensandbox_server import errors
from opensandbox_server.runtimes.oci import options
from opensandbox_server.settings.settings import Settings
from scripts import walk
from tests.repository.attacks import attacks_table

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
HELP_WIDTH = "100"

_PART = re.compile(r"(<!-- derived: (\w+) -->\n).*?(<!-- /derived -->)", re.DOTALL)


def pages() -> list[Path]:
    """Return the pages that have such parts."""
    return [page for page in sorted(DOCS.glob("*.md")) if _PART.search(page.read_text())]


def renewed(text: str) -> str:
    """Return a page with every part as the code has it now."""
    return _PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]()}\n{part[3]}", text)


def words(text: str) -> list[str]:
    """Return what of a page must be current: its words, without the counts of what is counted.

    Every version of Python breaks the help at other places, and every change of a source changes
    how long it is.
    """

    def mask(part: re.Match[str]) -> str:
        return re.sub(r"[\d,]*\d", "N", part[0]) if part[2] in COUNTS else part[0]

    return _PART.sub(mask, text).split()


def server_help() -> str:
    """Return what the server's commands say about themselves."""
    shown = (
        (),
        ("init-config",),
        ("systemd-unit",),
        ("images",),
        ("images", "import"),
        ("leftovers",),
    )
    said = [_help(*words) for words in shown]
    return "```\n" + "\n".join(said) + "```"


def _help(*words: str) -> str:
    return _help_of("opensandbox_server", *words)


def _help_of(module: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, *words, "--help"],
        env={**os.environ, "COLUMNS": HELP_WIDTH, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def server_settings() -> str:
    """Return a table for every section of the config file."""
    lines: list[str] = []
    for name, field in Settings.model_fields.items():
        if section := _section(field):
            meaning = " ".join((section.__doc__ or "").split())
            lines += [f"**`[{name}]`** {meaning}", "", *_head("Key", "Default", "Meaning")]
            lines += [*_keys("", section), ""]
    return "\n".join(lines).rstrip()


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _keys(prefix: str, section: type[BaseModel]) -> Iterator[str]:
    for name, field in section.model_fields.items():
        if inner := _section(field):
            yield from _keys(f"{prefix}{name}.", inner)
        else:
            yield _row(f"`{prefix}{name}`", _default(field.default), field.description or "")


def _default(value: object) -> str:
    if value in (None, "", (), {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{', '.join(value) if isinstance(value, tuple) else value}`"


def oci_settings() -> str:
    """Return the table of [oci]: its keys are fields with a sentence below each."""
    (found,) = (
        node
        for node in ast.parse(inspect.getsource(options)).body
        if isinstance(node, ast.ClassDef) and node.name == options.OCIOptions.__name__
    )
    lines = _head("Key", "Default", "Meaning")
    for field, below in zip(found.body, found.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            lines.append(_row(f"`{ast.unparse(field.target)}`", _literal(field), _text(below)))
    return "\n".join(lines)


def _literal(field: ast.AnnAssign) -> str:
    if isinstance(field.value, ast.Constant | ast.Tuple):
        return _default(ast.literal_eval(field.value))
    return f"`{ast.unparse(field.value)}`" if field.value else ""


def _text(node: ast.Expr) -> str:
    return " ".join(str(ast.literal_eval(node.value)).split())


def server_errors() -> str:
    """Return the table of every code the API answers with."""
    lines = _head("Code", "Status", "Meaning")
    for name, kind in vars(errors).items():
        is_error = isinstance(kind, type) and issubclass(kind, errors.RequestRefused)
        if is_error and name != "RequestRefused":
            meaning = " ".join((kind.__doc__ or "").split())
            lines.append(_row(f"`{kind.code}`", str(kind.status), meaning))
    return "\n".join(lines)


def _head(*names: str) -> list[str]:
    return [_row(*names), "|" + "---|" * len(names)]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |"


def cli_help() -> str:
    """Return what every command of osb says about itself."""
    said = "\n".join(_command_help(osb, None, "osb"))
    return f"```\n{said}\n```"


def _command_help(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    context = click.Context(
        command, parent=parent, info_name=name, max_content_width=100, terminal_width=100
    )
    yield command.get_help(context) + "\n"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            inner = command.get_command(context, below)
            assert inner is not None
            yield from _command_help(inner, context, below)


def cli_exit_codes() -> str:
    """Return the table of the codes osb exits with; each has a sentence below it."""
    (found,) = (
        node
        for node in ast.parse(inspect.getsource(failures)).body
        if isinstance(node, ast.ClassDef) and node.name == failures.ExitCode.__name__
    )
    lines = _head("Exit code", "Meaning")
    for field, below in zip(found.body, found.body[1:], strict=False):
        if isinstance(field, ast.Assign) and isinstance(below, ast.Expr):
            lines.append(_row(f"`{ast.unparse(field.value)}`", _text(below)))
    return "\n".join(lines)


def mcp_help() -> str:
    """Return what the MCP server says about its flags."""
    return f"```\n{_help_of('opensandbox_mcp')}```"


def mcp_tools() -> str:
    """Return the table of every tool, with what it takes and what it is for."""
    lines = _head("Tool", "Takes", "What it does")
    by_id, workspace = _tools(has_workspace=False), _tools(has_workspace=True)
    for name, tool in {**by_id, **workspace, **by_id}.items():
        modes = "" if name in by_id else " Only with `--workspace`."
        modes += "" if name in workspace else " Not with `--workspace`."
        summary = " ".join(tool.description.split("\n\n")[0].split())
        lines.append(_row(f"`{name}`", _parameters(tool.parameters), f"{summary}{modes}"))
    return "\n".join(lines)


def _tools(*, has_workspace: bool) -> dict[str, Tool]:
    specs = offered(has_workspace=has_workspace)
    return {spec.function.__name__: build_tool(spec, has_workspace=has_workspace) for spec in specs}


def _parameters(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    return ", ".join(
        f"`{name}`" if name in required else f"`{name}={_plain(one.get('default'))}`"
        for name, one in schema["properties"].items()
        if name not in ("sandbox_id", "connect_if_missing")  # said once, above the table
    )


def _plain(value: object) -> str:
    return json.dumps(value) if not isinstance(value, str) else value


def walk_report() -> str:
    """Return what somebody reads who follows one run through all planes."""
    return f"```text\n{walk.report()}\n```"


PARTS: dict[str, Callable[[], str]] = {
    "cli_exit_codes": cli_exit_codes,
    "cli_help": cli_help,
    "server_help": server_help,
    "server_settings": server_settings,
    "oci_settings": oci_settings,
    "server_errors": server_errors,
    "mcp_help": mcp_help,
    "mcp_tools": mcp_tools,
    "attacks": attacks_table,
    "walk": walk_report,
}
COUNTS = frozenset({"walk"})
"""Parts whose numbers may be old: nobody renews a page for a line more."""


if __name__ == "__main__":
    for page in pages():
        page.write_text(renewed(page.read_text()))
        print(f"wrote {page.relative_to(ROOT)}")
