# SPDX-License-Identifier: Apache-2.0
"""How the words of a command line are read, and the flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from opensandbox_cli.durations import parse_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
Pairs = tuple[tuple[str, str], ...]


class Duration(click.ParamType[timedelta | str]):
    """``10m``, ``1h30m``, ``90s``, or seconds; ``none`` where that is allowed."""

    name = "duration"

    def __init__(self, *, allows_none: bool = False) -> None:
        """``none`` becomes the word itself, so that it differs from an absent flag."""
        self._allows_none = allows_none

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | str:
        """Read the text."""
        if isinstance(value, timedelta):
            return value
        if self._allows_none and value == "none":
            return "none"
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Pair(click.ParamType[tuple[str, str]]):
    """``KEY=VALUE``."""

    name = "key=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first sign of equality."""
        if isinstance(value, tuple):
            return value
        key, equals, rest = value.partition("=")
        if not equals or not key:
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key, rest


class Mode(click.ParamType[int]):
    """Permissions in octal digits: ``644`` or ``0644``."""

    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Check the digits; the wire has them as a decimal number."""
        if isinstance(value, int):
            return value
        digits = value.removeprefix("0o")
        if not digits or set(digits) - set("01234567") or len(digits) > 5:
            self.fail(f"{value!r} is not a mode; write it in octal digits, like 644", param, ctx)
        return int(digits)


class SandboxId(click.ParamType[str]):
    """The id of a sandbox; the shell completes it by asking the server."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Take it as it is: the server knows which ids there are."""
        if not value.strip():
            self.fail("an id must not be blank; list them with: osb sandbox list", param, ctx)
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - the interface of click
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the ids of living sandboxes that begin so."""
        from opensandbox_cli.completing import sandbox_ids

        return sandbox_ids(ctx, incomplete)


DURATION = Duration()
LIFETIME = Duration(allows_none=True)
PAIR = Pair()
MODE = Mode()
SANDBOX_ID = SandboxId()

sandbox_argument = click.argument("sandbox_id", metavar="ID", type=SANDBOX_ID)


def output_option(*formats: str) -> Callable[[F], F]:
    """Add ``-o/--output``; the first format is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print it.",
    )


def page_options(function: F) -> F:
    """Add ``--page`` and ``--page-size``."""
    positive = click.IntRange(min=1)
    size = click.option("--page-size", type=positive, help="How many on a page.")
    page = click.option("--page", type=positive, help="Which page, from 1.")
    return page(size(function))


def owner_options(function: F) -> F:
    """Add ``--owner`` and ``--group``."""
    owner = click.option("--owner", help="Its user.")
    group = click.option("--group", help="Its group.")
    return owner(group(function))


def command_words(function: F) -> F:
    """Take ``-- CMD…``: everything that follows, flags included."""
    return click.argument(
        "words", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED
    )(function)


class WordsCommand(click.Command):
    """A command whose last words are somebody else's command line, flags included.

    Behind ``--`` everything is theirs, and its own flags may be anywhere before. Without it, its
    own flags come first and everything from the first word on is theirs.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words."""
        ctx.allow_interspersed_args = "--" in args
        return super().parse_args(ctx, args)
