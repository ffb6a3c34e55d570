# SPDX-License-Identifier: Apache-2.0
"""``osb skills``: texts that teach coding tools to use osb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from opensandbox_cli.arguments import output_option
from opensandbox_cli.failures import CommandFault, ExitCode
from opensandbox_cli.output import show
from opensandbox_cli.skill_files import SCOPES, TARGETS, Skill, find_skill, skills_here

COLUMNS = {"NAME": "name", "INSTALLED FOR": "installed", "WHAT IT TEACHES": "description"}

target_option: Callable[[Any], Any] = click.option(
    "-t", "--target", type=click.Choice([*TARGETS, "all"]), help="For which tool."
)
scope_option: Callable[[Any], Any] = click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="project",
    show_default=True,
    help="In this directory, or for all of yours.",
)


@click.group()
def skills() -> None:
    """Teach coding tools to use osb."""


@skills.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--all-builtins", is_flag=True, help="Every skill there is.")
@target_option
@scope_option
@click.option("-f", "--force", is_flag=True, help="Replace a file that was changed.")
def install(
    name: str | None, all_builtins: bool, target: str | None, scope: str, force: bool
) -> None:
    """Write a skill where a tool looks for it."""
    for skill, tool in _chosen(name, all_builtins, target):
        path = TARGETS[tool].path(skill.name, scope)
        text = TARGETS[tool].text(skill)
        if path.exists() and path.read_text() != text and not force:
            raise CommandFault(f"{path} exists and differs; replace it with --force")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        click.echo(f"wrote {path}")


@skills.command("show")
@click.argument("name", metavar="NAME")
def show_(name: str) -> None:
    """Print a skill."""
    click.echo(find_skill(name).text, nl=False)


@skills.command("list")
@output_option("table", "json", "yaml")
def list_(output: str) -> None:
    """List the skills, and the tools that have them here or everywhere."""
    rows = [
        {"name": skill.name, "installed": _tools_with(skill), "description": skill.description}
        for skill in skills_here()
    ]
    show(rows, output, COLUMNS)


@skills.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--all-builtins", is_flag=True, help="Every skill there is.")
@target_option
@scope_option
def uninstall(name: str | None, all_builtins: bool, target: str | None, scope: str) -> None:
    """Remove a skill from where a tool looks for it."""
    removed = 0
    for skill, tool in _chosen(name, all_builtins, target):
        path = TARGETS[tool].path(skill.name, scope)
        if path.exists():
            path.unlink()
            _remove_if_empty(path.parent, skill.name)
            click.echo(f"removed {path}")
            removed += 1
    if not removed:
        raise CommandFault("it is not installed there; see where it is with: osb skills list")


def _chosen(name: str | None, all_builtins: bool, target: str | None) -> list[tuple[Skill, str]]:
    if all_builtins == (name is not None) or target is None:
        names = ", ".join(skill.name for skill in skills_here())
        tools = ", ".join(TARGETS)
        message = f"say which: NAME ({names}) or --all-builtins, and --target ({tools}, all)"
        raise CommandFault(message, ExitCode.USAGE)
    chosen = skills_here() if all_builtins else [find_skill(name or "")]
    tools_chosen = list(TARGETS) if target == "all" else [target]
    return [(skill, tool) for skill in chosen for tool in tools_chosen]


def _tools_with(skill: Skill) -> list[str]:
    return [
        f"{tool}:{scope}"
        for tool, target in TARGETS.items()
        for scope in SCOPES
        if target.path(skill.name, scope).exists()
    ]


def _remove_if_empty(directory: Path, name: str) -> None:
    if directory.name == name and not any(directory.iterdir()):
        directory.rmdir()
