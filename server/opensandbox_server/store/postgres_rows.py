# SPDX-License-Identifier: Apache-2.0
"""What a row of PostgreSQL means, and how what is asked for is written."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

from asyncpg import Record

from opensandbox_server.store.store import Query
from opensandbox_server.store.stored import (
    COLUMNS,
    JSON_COLUMNS,
    NotUnderstood,
    StoredSandbox,
    from_row,
    to_row,
)

log = logging.getLogger(__name__)


def write_row(stored: StoredSandbox) -> dict[str, Any]:
    """Return a sandbox as the table has it."""
    row = to_row(stored)
    return row | {name: json.dumps(row[name], separators=(",", ":")) for name in JSON_COLUMNS}


def read_row(row: Record) -> StoredSandbox:
    """Read a row with all of COLUMNS. Raises NotUnderstood."""
    try:
        said = {name: json.loads(row[name]) for name in JSON_COLUMNS}
    except (ValueError, TypeError) as fault:
        raise NotUnderstood(f"what the store has of it makes no sense: {fault!r}") from fault
    return from_row({name: row[name] for name in COLUMNS} | said)


def readable(rows: Iterable[Record]) -> list[StoredSandbox]:
    """Read rows; those that cannot be read are left out, and named in the log."""
    found = []
    for row in rows:
        try:
            found.append(read_row(row))
        except NotUnderstood as reason:
            log.error("sandbox %s cannot be had: %s", row["id"], reason)
    return found


def conditions(query: Query) -> tuple[list[str], list[Any]]:
    """Write what is asked for as conditions, and the values in them; the first is $2."""
    where: list[str] = []
    values: list[Any] = []
    if query.owner is not None:
        values.append(query.owner)
        where.append(f"owner = ${len(values) + 1}")
    if query.states:
        values.append(list(query.states))
        where.append(f"state = ANY (${len(values) + 1}::text[])")
    if query.metadata:
        tags = {storable(name): storable(value) for name, value in query.metadata.items()}
        values.append(json.dumps(tags))
        where.append(f"metadata @> ${len(values) + 1}::jsonb")
    return where, values


def storable(value: Any) -> Any:
    """Return a text without what no text of PostgreSQL can have; ids and keys have none of it.

    What is stored for programs is JSON, and has everything.
    """
    if isinstance(value, list):
        return [storable(each) for each in value]
    if not isinstance(value, str) or (value.isascii() and "\x00" not in value):
        return value
    visible = value.replace("\x00", "\N{SYMBOL FOR NULL}")
    return visible.encode(errors="backslashreplace").decode()
