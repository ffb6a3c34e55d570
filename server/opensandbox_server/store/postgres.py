# SPDX-License-Identifier: Apache-2.0
"""The store of any number of servers: PostgreSQL.

Each row belongs to a place: that in which its instances live. Servers of one place see the same
sandboxes; those of different places share a database and see nothing of each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
from asyncpg import Pool, Record

from opensandbox_server.errors import StartupError, StoreFault
from opensandbox_server.host.supervision import Supervised
from opensandbox_server.settings.sections import Postgresql
from opensandbox_server.store import postgres_statements as sql
from opensandbox_server.store import store as contract
from opensandbox_server.store.migrations import NewerVersion
from opensandbox_server.store.postgres_connection import (
    UNUSABLE,
    arguments,
    connect,
    name_of,
    startup_faults,
    store_faults,
)
from opensandbox_server.store.postgres_listener import Listener, end
from opensandbox_server.store.postgres_migrations import POSTGRES_STEPS, migrate, version_of
from opensandbox_server.store.postgres_rows import (
    conditions,
    read_row,
    readable,
    storable,
    write_row,
)
from opensandbox_server.store.store import (
    Changes,
    Event,
    KeyTaken,
    Query,
    Store,
    StoreConflict,
    UsedKey,
)
from opensandbox_server.store.stored import COLUMNS, WANTED_COLUMNS, NotUnderstood, StoredSandbox

TRIES = 3
"""How often a statement is said that the database undid for the sake of another one."""

DELETIONS_SECONDS = 300.0
"""How long deletions are told; who is further behind reads everything."""

CLOSE_SECONDS = 5.0
"""How long statements that go on at the end are waited for."""

UPKEEP_SECONDS = 60.0
"""How often what is too old is removed."""


class PostgresStore(Store):
    """Every verb is one statement: one round trip, and one transaction."""

    def __init__(
        self, pool: Pool[Record], listener: Listener, place: str, *, is_exclusive: bool, wait: float
    ) -> None:
        """Take what open_postgres opened; wait is how long for a connection."""
        self.is_shared = not is_exclusive
        self.trouble = ""
        self._pool = pool
        self._listener = listener
        self._place = place
        self._wait = wait
        self._name = secrets.token_hex(8)
        self._has_failed = asyncio.Event()
        listener.has_failed = self._fail

    async def get(self, sandbox_id: str) -> StoredSandbox | None:
        """Return one."""
        return next(iter(readable(await self._do(sql.GET, sandbox_id))), None)

    async def query(self, query: Query) -> Sequence[StoredSandbox]:
        """Return those with all that is asked for, newest first."""
        where, values = conditions(query)
        first = len(values) + 2
        order = f"ORDER BY created_at DESC, id DESC LIMIT ${first}::bigint OFFSET ${first + 1}"
        text = f"{' AND '.join([sql.SELECT, *where])} {order}"
        return readable(await self._do(text, *values, query.limit, query.offset))

    async def insert(self, stored: StoredSandbox, key: UsedKey | None = None) -> None:
        """Remember a new sandbox, its first event and its key. Raises KeyTaken."""
        row = write_row(stored)
        values = [row[name] for name in COLUMNS]
        values += [datetime.now(UTC), f"image {stored.spec.image}"]
        if key is None:
            await self._do(sql.INSERT, *values)
            return
        values += [key.owner, key.key, key.fingerprint, key.sandbox_id]
        while not await self._do(sql.INSERT_WITH_KEY, *values, contract.KEY_LIFETIME_SECONDS):
            if former := await self.key(key.owner, key.key):
                raise KeyTaken(former)  # else it was freed this very moment

    async def update(
        self,
        stored: StoredSandbox,
        expected_revision: int,
        kind: str,
        message: str = "",
        *,
        state: str = "",
    ) -> int:
        """Remember a change and what it was. Raises StoreConflict."""
        row = write_row(stored) | {"revision": expected_revision + 1}
        event = (datetime.now(UTC), kind, message, contract.EVENTS_KEPT)
        wanted = (row[name] for name in WANTED_COLUMNS)
        if not await self._do(sql.UPDATE, stored.id, expected_revision, state, *event, *wanted):
            raise StoreConflict(f"sandbox {stored.id} is no longer as it was")
        return expected_revision + 1

    async def note(
        self,
        sandbox_id: str,
        kind: str,
        message: str = "",
        *,
        at: float | None = None,
        state: str = "",
    ) -> None:
        """Remember something that happened, and the state seen then."""
        when = datetime.fromtimestamp(time.time() if at is None else at, UTC)
        values = (sandbox_id, when, kind, message, contract.EVENTS_KEPT)
        if state:
            await self._do(sql.NOTE_STATE, *values, state)
            return
        with contextlib.suppress(_Gone):
            await self._do(sql.NOTE, *values)

    async def delete(self, sandbox_id: str, *, frees_key: bool = False) -> None:
        """Forget a sandbox."""
        await self._do(sql.DELETE, sandbox_id, frees_key)

    async def events(self, sandbox_id: str, limit: int) -> Sequence[Event]:
        """Return the newest events of a sandbox, oldest of them first."""
        rows = await self._do(sql.EVENTS, sandbox_id, limit)
        return [Event(at.timestamp(), kind, message) for at, kind, message in reversed(rows)]

    async def key(self, owner: str, key: str) -> UsedKey | None:
        """Return what was made under an idempotency key."""
        rows = await self._do(sql.KEY, owner, key, contract.KEY_LIFETIME_SECONDS)
        return UsedKey(*rows[0]) if rows else None

    async def due(self, sandbox_id: str) -> float:
        """Ask the database, by its clock; a store for one server says yes, as SQLite does."""
        if not self.is_shared:
            return 0.0
        seconds = (contract.LEASE_SECONDS, contract.START_SECONDS)
        rows = await self._do(sql.DUE, sandbox_id, self._name, *seconds)
        if not rows or rows[0]["is_given"]:
            return 0.0
        left = rows[0]["seconds"]
        if left is None:  # it has no end
            return contract.START_SECONDS
        return float(left) if left > 0 else contract.LEASE_SECONDS  # somebody was faster

    async def changes(self, since: str | None) -> Changes:
        """Return what changed since a position."""
        try:
            position, is_whole, rows = await self._listener.read(since)
        except StoreFault as fault:
            self._fail(str(fault))
            raise
        here = [row for row in rows if row["id"] is not None and row["spec"] is not None]
        gone = {row["id"] for row in rows if row["spec"] is None} - {None}
        ids = {row["id"] for row in here}
        changed = readable(here)
        unreadable = ids - {stored.id for stored in changed}
        return Changes(position, changed, gone - ids, unreadable, is_whole)

    async def changed(self) -> None:
        """Wait until one is heard of, or may have been missed."""
        await self._listener.has_changed.wait()

    async def belong(self, present: Sequence[str]) -> None:
        """Become the store of the data directory. Raises StartupError."""
        if self.is_shared or await self._do(sql.BELONG, list(present)):
            return
        raise StartupError(
            f"the store is new, or another one, and knows none of the {len(present)} sandboxes "
            f"that are here ({min(present)}, …): put back theirs, or set store.url to it; without "
            "it, see: opensandbox-server leftovers list"
        )

    async def upkeep(self) -> None:
        """Remove what is too old, until cancelled."""
        while True:
            await self._do(sql.PRUNE, DELETIONS_SECONDS)
            await self._do(sql.FORGET_KEYS, contract.KEY_LIFETIME_SECONDS)
            await asyncio.sleep(UPKEEP_SECONDS)

    async def recover(self) -> None:
        """Write something after a failure, to learn when that works again."""
        while True:
            await self._has_failed.wait()
            self._has_failed.clear()
            await self._do(sql.WRITE_SOMETHING)
            if not self._listener.is_connected:
                self._has_failed.set()
                raise StoreFault("The store cannot be used: changes are not heard.")
            self.trouble = ""

    async def _do(self, statement: str, *values: Any) -> list[Record]:
        """Say a statement about the place. Raises StoreFault, and _Gone for one without its row."""
        try:
            if self._listener.refusal:
                raise StoreFault(f"The store cannot be used: {self._listener.refusal}.")
            if not self.is_shared and not self._listener.is_connected:
                raise StoreFault("The store cannot be used: the connection was lost.")
            with store_faults():
                return await self._say(statement, [self._place, *map(storable, values)])
        except StoreFault as fault:
            self._fail(str(fault))
            raise

    async def _say(self, statement: str, values: Sequence[Any]) -> list[Record]:
        for left in reversed(range(TRIES)):
            try:
                async with self._pool.acquire(timeout=self._wait) as db:
                    return await db.fetch(statement, *values)
            except asyncpg.ForeignKeyViolationError:
                raise _Gone from None
            except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
                if not left:
                    raise
            except asyncpg.ReadOnlySQLTransactionError:
                await self._pool.expire_connections()  # another one can be written to by now
                raise
        raise AssertionError

    def _fail(self, why: str) -> None:
        self.trouble = why
        self._has_failed.set()


class _Gone(Exception):
    """The sandbox was deleted this very moment."""


@contextlib.asynccontextmanager
async def open_postgres(
    url: str, place: str, *, is_exclusive: bool, options: Postgresql | None = None
) -> AsyncIterator[PostgresStore]:
    """Open what a database has of a place, making its tables at the first start.

    An exclusive place has one server at a time. Raises StartupError.
    """
    options = options or Postgresql()
    listener = Listener(lambda: connect(url, options), place, is_exclusive=is_exclusive)
    async with contextlib.AsyncExitStack() as opened:
        with startup_faults(url):
            await _prepare(url, options)
            opened.push_async_callback(listener.close)
            await listener.open()
            pool = await opened.enter_async_context(_open_pool(url, options))
            await _know(pool, place)
        wait = options.pool_timeout_seconds
        store = PostgresStore(pool, listener, place, is_exclusive=is_exclusive, wait=wait)
        life = Supervised("the listener of the store", listener.run)
        listening = asyncio.create_task(life.run(), name=life.name)
        opened.push_async_callback(_cancel, listening)
        yield store


async def read_place(
    url: str, place: str, options: Postgresql | None = None
) -> Mapping[str, StoredSandbox | NotUnderstood]:
    """Return every row of a place beside servers that may be using it. Raises StartupError."""
    with startup_faults(url):
        db = await connect(url, options or Postgresql())
        try:
            if (version := await version_of(db)) is None:
                return {}
            if version > len(POSTGRES_STEPS):
                raise NewerVersion
            if version < len(POSTGRES_STEPS):
                raise StartupError(f"{name_of(url)} is of a former version; start a server first")
            rows = await db.fetch(sql.SELECT, place)
        finally:
            await end(db)
    return {row["id"]: _understood(row) for row in rows}


def _understood(row: Record) -> StoredSandbox | NotUnderstood:
    try:
        return read_row(row)
    except NotUnderstood as reason:
        return reason


async def _prepare(url: str, options: Postgresql) -> None:
    """Bring the database to this version."""
    db = await connect(url, options)
    try:
        await migrate(db)
    finally:
        await end(db)


async def _know(pool: Pool[Record], place: str) -> None:
    """Have the row of the place, and rows that this database knows the transactions of."""
    async with pool.acquire() as db, db.transaction():
        await db.execute(sql.KNOW_PLACE, place)
        for statement in sql.AFTER_RESTORE:
            await db.execute(statement, place)


@contextlib.asynccontextmanager
async def _open_pool(url: str, options: Postgresql) -> AsyncIterator[Pool[Record]]:
    async def keep(_: object) -> None:
        """Do nothing when a statement is over: none leaves anything to be reset."""

    # What it warns of, with a trace at each try, is a fault of ours already.
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)
    most = options.max_pool_size
    least = min(options.min_pool_size, most)
    pool = asyncpg.create_pool(**arguments(url, options), min_size=least, max_size=most, reset=keep)
    try:
        yield await pool
    finally:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await pool.close()
        except UNUSABLE:
            pool.terminate()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
