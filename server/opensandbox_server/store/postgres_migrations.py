# SPDX-License-Identifier: Apache-2.0
"""How a database becomes one of this version: numbered steps, each a transaction with its number.

A step is never changed once it was released: the next one begins where it ended. Tables are made in
the first schema of the connection's search_path. `place` is in every table, for servers of several
places may share a database. Texts that are compared have the order of their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from asyncpg import Connection, Record

from opensandbox_server.store.migrations import NewerVersion

_PATIENCE = "SET lock_timeout = '60s'; SET statement_timeout = '600s'"
"""Another server may be at it; and a step may have much to do."""
_BEGIN = "SELECT pg_advisory_lock(hashtextextended('opensandbox migrations', 0))"
_END = _BEGIN.replace("_lock", "_unlock")

# JSON is kept as it was written: jsonb could not have a NUL. Metadata has none, and is asked for.
_FIRST = """
CREATE TABLE places (
    place TEXT COLLATE "C" PRIMARY KEY,
    belongs BOOLEAN NOT NULL DEFAULT FALSE,
    pruned XID8 NOT NULL DEFAULT '0'
);
CREATE TABLE sandboxes (
    place TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL,
    owner TEXT COLLATE "C" NOT NULL, revision BIGINT NOT NULL,
    state TEXT NOT NULL, state_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL, expires_at TIMESTAMPTZ,
    spec JSON NOT NULL, env JSON NOT NULL, metadata JSONB NOT NULL, extensions JSON NOT NULL,
    execd_token TEXT NOT NULL, secure_token TEXT NOT NULL,
    has_answered BOOLEAN NOT NULL, is_repeatable BOOLEAN NOT NULL, others JSON NOT NULL,
    lease_by TEXT, lease_until TIMESTAMPTZ, changed XID8 NOT NULL,
    PRIMARY KEY (place, id)
);
CREATE INDEX sandboxes_by_age ON sandboxes (place, created_at, id);
CREATE INDEX sandboxes_by_owner ON sandboxes (place, owner, created_at, id);
CREATE INDEX sandboxes_by_change ON sandboxes (place, changed);
CREATE INDEX sandboxes_by_metadata ON sandboxes USING GIN (metadata jsonb_path_ops);
CREATE TABLE deletions (
    place TEXT COLLATE "C" NOT NULL, sandbox_id TEXT COLLATE "C" NOT NULL,
    changed XID8 NOT NULL, at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX deletions_by_change ON deletions (place, changed);
CREATE TABLE events (
    place TEXT COLLATE "C" NOT NULL, sandbox_id TEXT COLLATE "C" NOT NULL,
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    at TIMESTAMPTZ NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL,
    PRIMARY KEY (place, sandbox_id, number),
    FOREIGN KEY (place, sandbox_id) REFERENCES sandboxes (place, id) ON DELETE CASCADE
);
CREATE TABLE idempotency (
    place TEXT COLLATE "C" NOT NULL, owner TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT NOT NULL, sandbox_id TEXT COLLATE "C" NOT NULL,
    at TIMESTAMPTZ NOT NULL DEFAULT now(), PRIMARY KEY (place, owner, key)
);
CREATE INDEX idempotency_by_sandbox ON idempotency (place, sandbox_id);
CREATE INDEX idempotency_by_age ON idempotency (at);
"""

POSTGRES_STEPS: Sequence[str] = (_FIRST,)


async def migrate(db: Connection[Record], steps: Sequence[str] | None = None) -> None:
    """Take the steps that a database has not taken yet. Raises NewerVersion.

    Several servers may do it at the same time. Where nothing is to be done nothing is written, and
    no right is needed to make tables. The connection is of no other use: its limits are changed.
    """
    steps = POSTGRES_STEPS if steps is None else steps
    if (await version_of(db) or 0) < len(steps):
        await db.execute(_PATIENCE)
        # Before any transaction: one that began earlier would not see what others made meanwhile.
        await db.execute(_BEGIN)
        try:
            for number in range(await version_of(db) or 0, len(steps)):
                async with db.transaction():
                    await _take(db, number, steps[number])
        finally:
            await db.execute(_END)
    if (await version_of(db) or 0) > len(steps):
        raise NewerVersion


async def _take(db: Connection[Record], number: int, step: str) -> None:
    if await version_of(db) is None:
        await db.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
        await db.execute("INSERT INTO schema_version VALUES (0)")
    await db.execute(step)
    await db.execute("UPDATE schema_version SET version = $1", number + 1)


async def version_of(db: Connection[Record]) -> int | None:
    """Return how many steps a database has taken; None when it has no tables."""
    if await db.fetchval("SELECT to_regclass('schema_version')") is None:
        return None
    found = await db.fetchval("SELECT version FROM schema_version")
    return int(found)
