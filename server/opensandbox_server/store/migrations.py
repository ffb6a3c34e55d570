# SPDX-License-Identifier: Apache-2.0
"""How a store of any former version becomes one of this: numbered steps, each a transaction.

A step is never changed once it was released, and uses nothing of the server that may change: the
next one begins where it ended.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

Step = Callable[[sqlite3.Connection], None]


class NewerVersion(Exception):
    """The store was written by a newer version of the server."""


def migrate(db: sqlite3.Connection, steps: Sequence[Step] | None = None) -> None:
    """Take the steps that a database has not taken yet. Raises NewerVersion.

    A step that fails, or a machine that does, leaves the version before.
    """
    steps = SQLITE_STEPS if steps is None else steps
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > len(steps):
        raise NewerVersion
    for number, step in enumerate(steps[version:], version + 1):
        db.execute("BEGIN IMMEDIATE")
        with db:
            step(db)
            db.execute(f"PRAGMA user_version = {number}")


def _run(db: sqlite3.Connection, script: str) -> None:
    """Run statements in the transaction that is open, which executescript would end."""
    for statement in script.split(";"):
        db.execute(statement)


# 1: what release 0.1.0 wrote.

_FIRST = """
CREATE TABLE sandboxes (id TEXT PRIMARY KEY, wanted TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    number INTEGER PRIMARY KEY, sandbox_id TEXT NOT NULL,
    at REAL NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL);
CREATE INDEX events_of ON events (sandbox_id, number);
CREATE TABLE idempotency (
    key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL,
    sandbox_id TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (at)
"""


def _first(db: sqlite3.Connection) -> None:
    _run(db, _FIRST)


# 2: columns instead of one JSON text, owners, revisions, and the environment apart.
# Times are microseconds since 1970: exact, and in their order.

_COLUMNS = """
ALTER TABLE sandboxes RENAME TO former_sandboxes;
CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL DEFAULT '', revision INTEGER NOT NULL DEFAULT 1,
    state TEXT NOT NULL DEFAULT '', state_at INTEGER, created_at INTEGER, expires_at INTEGER,
    spec TEXT NOT NULL, env TEXT NOT NULL DEFAULT '{}', metadata TEXT NOT NULL DEFAULT '{}',
    extensions TEXT NOT NULL DEFAULT '{}', execd_token TEXT NOT NULL DEFAULT '',
    secure_token TEXT NOT NULL DEFAULT '', has_answered INTEGER NOT NULL DEFAULT 0,
    is_repeatable INTEGER NOT NULL DEFAULT 0, others TEXT NOT NULL DEFAULT '{}') WITHOUT ROWID;
DROP INDEX idempotency_by_age;
ALTER TABLE idempotency RENAME TO former_idempotency;
CREATE TABLE idempotency (
    owner TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL,
    sandbox_id TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (owner, key)) WITHOUT ROWID;
INSERT INTO idempotency SELECT '', key, fingerprint, sandbox_id, at FROM former_idempotency;
DROP TABLE former_idempotency;
CREATE INDEX idempotency_by_age ON idempotency (at)
"""
_SPEC = (
    *("image", "entrypoint", "resources", "platform", "isolation", "has_network", "is_readonly"),
)
_TEXTS = ("execd_token", "secure_token")
_FLAGS = ("has_answered", "is_repeatable")
_OBJECTS = ("env", "metadata", "extensions")


def _columns(db: sqlite3.Connection) -> None:
    _run(db, _COLUMNS)
    for sandbox_id, text in db.execute("SELECT id, wanted FROM former_sandboxes").fetchall():
        try:
            row = _columns_of(sandbox_id, json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError):
            # Nobody could read it before; whole and without a time nobody can now.
            row = {"id": sandbox_id, "spec": text}
        marks = ", ".join(f":{name}" for name in row)
        db.execute(f"INSERT INTO sandboxes ({', '.join(row)}) VALUES ({marks})", row)
    db.execute("DROP TABLE former_sandboxes")


def _columns_of(sandbox_id: str, said: dict[str, Any]) -> dict[str, Any]:
    if said.pop("id") != sandbox_id:
        raise ValueError("it is another one's")
    created, expires = said.pop("created_at"), said.pop("expires_at")
    row: dict[str, Any] = {"id": sandbox_id, "created_at": _microseconds(created)}
    row["expires_at"] = _microseconds(expires) if expires else None
    row["spec"] = json.dumps({name: said.pop(name) for name in _SPEC if name in said})
    row |= {name: json.dumps(said.pop(name, {})) for name in _OBJECTS}
    row |= {name: str(said.pop(name, "")) for name in _TEXTS}
    row |= {name: bool(said.pop(name, False)) for name in _FLAGS}
    return row | {"others": json.dumps(said)}


def _microseconds(text: str) -> int:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


SQLITE_STEPS: Sequence[Step] = (_first, _columns)
SQLITE_VERSION = len(SQLITE_STEPS)
