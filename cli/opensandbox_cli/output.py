# SPDX-License-Identifier: Apache-2.0
"""Prints what a command found: a table for people, JSON or YAML for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from opensandbox_cli.durations import age, left
from opensandbox_cli.plain_text import escaped_json, has_controls, without_controls

if TYPE_CHECKING:
    from pydantic import BaseModel

Record = Mapping[str, Any]
Columns = Mapping[str, str]
"""Title to path: ``status.state``; behind ``age:`` and ``left:`` a time is shown as a span."""


def record(model: BaseModel) -> dict[str, Any]:
    """Return a model as plain values, named as the client names them."""
    return model.model_dump(mode="json")


def show(value: Any, output: str, columns: Columns | None = None) -> None:
    """Print one record, or several with a table of ``columns``."""
    match output:
        case "json":
            click.echo(escaped_json(json.dumps(value, indent=2, ensure_ascii=False)))
        case "yaml":
            import yaml

            text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
            if has_controls(text):
                text = yaml.safe_dump(value, sort_keys=False)
            click.echo(text, nl=False)
        case _ if isinstance(value, list):
            click.echo(table(value, columns or {}))
        case _:
            click.echo(sheet(value))


def table(records: Sequence[Record], columns: Columns) -> str:
    """Lay records out below the titles of their columns."""
    rows = [[_cell(one, path) for path in columns.values()] for one in records]
    titles, *lines = aligned([list(columns), *rows]).split("\n")
    return "\n".join([click.style(titles, bold=True), *lines])


def sheet(one: Record) -> str:
    """Lay one record out, a line for each value that there is."""
    return aligned([[name, value] for name, value in _flat("", one)])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Pad all cells but the last of each row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def footer(pagination: Record) -> str:
    """Say that there is more, and how to see it."""
    if not pagination["has_next_page"]:
        return ""
    page, pages, total = (pagination[name] for name in ("page", "total_pages", "total_items"))
    return f"page {page} of {pages}, {total} in all; go on with --page {page + 1}"


def _cell(one: Record, path: str) -> str:
    kind, _, inner = path.rpartition(":")
    value: Any = one
    for name in inner.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if kind:
        now = datetime.now().astimezone()
        time = datetime.fromisoformat(value) if value else None
        return age(time, now) if kind == "age" else left(time, now)
    return _shown(value)


def _flat(prefix: str, one: Record) -> Iterable[tuple[str, str]]:
    for name, value in one.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        elif value is not None:
            yield without_controls(f"{prefix}{name}"), _shown(value)


def _shown(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case [*parts]:
            return " ".join(map(_shown, parts))
        case {}:
            return " ".join(f"{name}={_shown(inner)}" for name, inner in value.items())
    return " ".join(without_controls(str(value)).split("\n"))
