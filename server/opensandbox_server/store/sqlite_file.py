# SPDX-License-Identifier: Apache-2.0
"""The file that a SQLite store is: who may open it, whose it is, and what a row of it means."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from opensandbox_server.errors import StartupError
from opensandbox_server.store.migrations import NewerVersion, migrate
from opensandbox_server.store.stored import (
    COLUMNS,
    JSON_COLUMNS,
    TIME_COLUMNS,
    NotUnderstood,
    StoredSandbox,
    from_row,
    to_row,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
NEWER = "the store {} was written by a newer version of the server"
_FACTS = "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
"""Not part of the version: release 0.1.0 did well without it."""


@contextlib.contextmanager
def hold(path: Path) -> Iterator[None]:
    """Have the store for this server alone. A file beside it, for SQLite has locks of its own."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as fault:
        raise StartupError(f"cannot open the store {path}: {fault.strerror}") from fault
    with contextlib.closing(os.fdopen(lock)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            raise StartupError(
                f"the store {path} is in use by another server; give this one its own store.path"
            ) from fault
        yield


def connect(path: Path, data_dir_id: str) -> sqlite3.Connection:
    """Open the database, making it or bringing it to this version.

    Raises StartupError, also for one of a newer version and one of another data directory.
    """
    try:
        path.touch(mode=0o600)
        db = sqlite3.connect(path)
    except (OSError, sqlite3.Error) as fault:
        raise StartupError(f"cannot open the store {path}: {fault}") from fault
    try:
        _prepare(db)
        _refuse_that_of_another(db, path, data_dir_id)
    except NewerVersion as fault:
        db.close()
        raise StartupError(NEWER.format(path)) from fault
    except sqlite3.Error as fault:
        db.close()
        raise StartupError(f"cannot open the store {path}: {fault}") from fault
    except StartupError:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    # A crash of the machine may lose the last moment; its sandboxes are gone then too.
    db.execute("PRAGMA synchronous = NORMAL")
    # Tokens and environments of deleted sandboxes must not stay in free pages.
    db.execute("PRAGMA secure_delete = ON")
    migrate(db)
    db.execute(_FACTS)


def _refuse_that_of_another(db: sqlite3.Connection, path: Path, data_dir_id: str) -> None:
    if data_dir_id and data_dir_of(db) not in ("", data_dir_id):
        raise StartupError(
            f"the store {path} belongs to another data directory: set store.path to the one of "
            "this, or server.data_dir to that of the store"
        )


def data_dir_of(db: sqlite3.Connection) -> str:
    """Return the id of the data directory that a store belongs to; empty when it has none yet."""
    row = db.execute("SELECT value FROM facts WHERE name = 'data_dir'").fetchone()
    return str(row[0]) if row else ""


def write_row(stored: StoredSandbox) -> dict[str, Any]:
    """Return a sandbox as the table has it."""
    row = to_row(stored)
    for name in JSON_COLUMNS:
        row[name] = json.dumps(row[name], separators=(",", ":"))
    for name in TIME_COLUMNS:
        row[name] = (row[name] - _EPOCH) // _MICROSECOND if row[name] else None
    return row


def read_row(values: tuple[Any, ...]) -> StoredSandbox:
    """Read a row with all of COLUMNS. Raises NotUnderstood."""
    row = dict(zip(COLUMNS, values, strict=True))
    try:
        for name in JSON_COLUMNS:
            row[name] = json.loads(row[name])
        for name in TIME_COLUMNS:
            row[name] = _EPOCH + row[name] * _MICROSECOND if row[name] is not None else None
    except (ValueError, TypeError, OverflowError) as fault:
        raise NotUnderstood(f"what the store has of it makes no sense: {fault!r}") from fault
    return from_row(row)


def read_file(path: Path) -> Mapping[str, StoredSandbox | NotUnderstood]:
    """Return every row beside a server that may be using the store. Raises StartupError.

    A store of a former version stays as it is: a copy in memory is brought to this one.
    """
    if not path.is_file():
        return {}
    uri = f"{path.resolve().as_uri()}?mode=ro"
    try:
        with (
            contextlib.closing(sqlite3.connect(uri, uri=True)) as db,
            contextlib.closing(sqlite3.connect(":memory:")) as copy,
        ):
            db.backup(copy)
            migrate(copy)
            rows = copy.execute(f"SELECT {', '.join(COLUMNS)} FROM sandboxes").fetchall()
    except NewerVersion as fault:
        raise StartupError(NEWER.format(path)) from fault
    except sqlite3.Error as fault:
        raise StartupError(f"cannot read the store {path}: {fault}") from fault
    return {row[0]: _understood(row) for row in rows}


def _understood(row: tuple[Any, ...]) -> StoredSandbox | NotUnderstood:
    try:
        return read_row(row)
    except NotUnderstood as reason:
        return reason
