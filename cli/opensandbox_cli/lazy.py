# SPDX-License-Identifier: Apache-2.0
"""A group of commands that imports one when it is used. Help and completion need none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click


@dataclass(frozen=True)
class Place:
    """Where a command is, and the line that describes it until it is imported."""

    module: str
    name: str
    summary: str


class LazyGroup(click.Group):
    """Knows its commands by name and line; a test compares the lines with the commands' own."""

    def __init__(self, *args: Any, places: Mapping[str, Place], **kwargs: Any) -> None:
        """Take the table of commands."""
        super().__init__(*args, **kwargs)
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the commands in the order of the table: by what people do first."""
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        place = self.places.get(cmd_name)
        if place is None:
            return None
        command = getattr(import_module(place.module), place.name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.summary) for name, place in self.places.items()])

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Complete names from the table."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=place.summary)
            for name, place in self.places.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)
