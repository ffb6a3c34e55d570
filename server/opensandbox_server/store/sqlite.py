# SPDX-License-Identifier: Apache-2.0
"""The store of one server: SQLite with a write-ahead log, one connection on one thread."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from opensandbox_server.errors import StartupError, StoreFault
from opensandbox_server.host.ballast import Ballast
from opensandbox_server.host.priority import run_before_others
from opensandbox_server.store import store as contract
from opensandbox_server.store.migrations import SQLITE_VERSION
from opensandbox_server.store.sqlite_file import connect, data_dir_of, hold, read_row, write_row
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

BALLAST_SECONDS = 30.0
"""How often it is looked whether there is room for a reserve that was used up."""

CHANGES_KEPT = 10_000
"""Who is further behind reads everything."""

_SELECT = f"SELECT {', '.join(COLUMNS)} FROM sandboxes"
_INSERT = (
    f"INSERT INTO sandboxes ({', '.join(COLUMNS)})"
    f" VALUES ({', '.join(f':{name}' for name in COLUMNS)})"
)
_UPDATE = (
    f"UPDATE sandboxes SET {', '.join(f'{name} = :{name}' for name in WANTED_COLUMNS)},"
    " state = iif(:seen = '', state, :seen), state_at = iif(:seen = '', state_at, :now)"
    " WHERE id = :id AND revision = :expected"
)

log = logging.getLogger(__name__)

T = TypeVar("T")


class SqliteStore(Store):
    """Verbs happen in the order they were called. Other servers are kept out, so none is heard."""

    is_shared = False

    def __init__(
        self,
        connection: sqlite3.Connection,
        thread: ThreadPoolExecutor,
        ballast: Ballast | None = None,
        data_dir_id: str = "",
    ) -> None:
        """Take a connection that was made on that thread; see open_sqlite."""
        self._ballast = ballast
        self._connection = connection
        self._thread = thread
        self._data_dir_id = data_dir_id
        self._has_failed = asyncio.Event()
        self._recent = _Recent()
        self.trouble = ""

    async def get(self, sandbox_id: str) -> StoredSandbox | None:
        """Return one."""
        rows = await self._do(
            lambda db: db.execute(f"{_SELECT} WHERE id = ?", (sandbox_id,)).fetchall()
        )
        return next(iter(_readable(rows)), None)

    async def query(self, query: Query) -> Sequence[StoredSandbox]:
        """Return those with all that is asked for, newest first."""
        where, values = _conditions(query)
        order = "ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?"
        values += [-1 if query.limit is None else query.limit, query.offset]
        sql = f"{_SELECT} WHERE {' AND '.join(['TRUE', *where])} {order}"
        return _readable(await self._do(lambda db: db.execute(sql, values).fetchall()))

    async def insert(self, stored: StoredSandbox, key: UsedKey | None = None) -> None:
        """Remember a new sandbox, its first event and its key. Raises KeyTaken."""
        now = time.time()

        def write(db: sqlite3.Connection) -> UsedKey | None:
            if key and (former := _take_key(db, key, now)):
                return former
            db.execute(_INSERT, write_row(stored))
            _note(db, stored.id, Event(now, "Created", f"image {stored.spec.image}"))
            return None

        if former := await self._do(write, changes=stored.id):
            raise KeyTaken(former)

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
        revision = expected_revision + 1
        event = Event(time.time(), kind, message)
        beside = {"revision": revision, "expected": expected_revision, "seen": state}

        def write(db: sqlite3.Connection) -> bool:
            row = write_row(stored) | beside | {"now": _microseconds(event.at)}
            if not db.execute(_UPDATE, row).rowcount:
                return False
            _note(db, stored.id, event)
            return True

        if not await self._do(write, changes=stored.id):
            raise StoreConflict(f"sandbox {stored.id} is no longer as it was")
        return revision

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
        event = Event(time.time() if at is None else at, kind, message)

        def write(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT state FROM sandboxes WHERE id = ?", (sandbox_id,)).fetchone()
            if row is None or (state and row[0] == state):
                return
            if state:
                values = (state, _microseconds(event.at), sandbox_id)
                db.execute("UPDATE sandboxes SET state = ?, state_at = ? WHERE id = ?", values)
            _note(db, sandbox_id, event)

        await self._do(write, changes=sandbox_id if state else "")

    async def delete(self, sandbox_id: str, *, frees_key: bool = False) -> None:
        """Forget a sandbox."""

        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM sandboxes WHERE id = ?", (sandbox_id,))
            db.execute("DELETE FROM events WHERE sandbox_id = ?", (sandbox_id,))
            if frees_key:
                db.execute("DELETE FROM idempotency WHERE sandbox_id = ?", (sandbox_id,))

        await self._do(write, changes=sandbox_id, uses_ballast=True)

    async def events(self, sandbox_id: str, limit: int) -> Sequence[Event]:
        """Return the newest events of a sandbox, oldest of them first."""
        query = (
            "SELECT at, kind, message FROM events WHERE sandbox_id = ? ORDER BY number DESC LIMIT ?"
        )
        rows = await self._do(lambda db: db.execute(query, (sandbox_id, limit)).fetchall())
        return [Event(*row) for row in reversed(rows)]

    async def key(self, owner: str, key: str) -> UsedKey | None:
        """Return what was made under an idempotency key."""
        oldest = time.time() - contract.KEY_LIFETIME_SECONDS
        return await self._do(lambda db: _used_key(db, owner, key, oldest))

    async def due(self, sandbox_id: str) -> float:  # noqa: ARG002
        """Say yes: whoever asks is the only server, and has looked at the clock."""
        return 0.0

    async def changes(self, since: str | None) -> Changes:
        """Return what changed since a position."""
        self._recent.has_changed.clear()

        def read(db: sqlite3.Connection) -> tuple[str, Sequence[str] | None, list[Any]]:
            position, ids = self._recent.position, self._recent.since(since)
            if ids is None:
                return position, None, db.execute(_SELECT).fetchall()
            marks = ", ".join("?" * len(ids))
            return position, ids, db.execute(f"{_SELECT} WHERE id IN ({marks})", ids).fetchall()

        position, ids, rows = await self._do(read)
        gone = set(ids or ()) - {row[0] for row in rows}
        return Changes(position, _readable(rows), gone, is_whole=ids is None)

    async def changed(self) -> None:
        """Wait for a change; nothing is asked meanwhile."""
        await self._recent.has_changed.wait()

    async def belong(self, present: Sequence[str]) -> None:
        """Become the store of the data directory. Raises StartupError."""

        def write(db: sqlite3.Connection) -> str:
            if not self._data_dir_id or data_dir_of(db):
                return ""
            known = {row[0] for row in db.execute("SELECT id FROM sandboxes")}
            if present and known.isdisjoint(present):
                return min(present)
            db.execute("INSERT INTO facts VALUES ('data_dir', ?)", (self._data_dir_id,))
            return ""

        if example := await self._do(write, uses_ballast=True):
            raise StartupError(
                f"the store is new, or another one, and knows none of the {len(present)} sandboxes "
                f"that are here ({example}, …): put back theirs, or set store.path to it; without "
                "it, see: opensandbox-server leftovers list"
            )

    async def _do(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        changes: str = "",
        uses_ballast: bool = False,
    ) -> T:
        """Do work in a transaction on the thread; changes names the sandbox that others look at."""

        def transact() -> T:
            with _store_faults(), self._connection:
                done = work(self._connection)
            if changes:  # here, for the caller may be gone
                self._recent.add(changes)
            return done

        def transact_on_a_full_disk() -> T:
            try:
                return transact()
            except StoreFault as fault:
                if self._ballast is None or not _is_full(fault.__cause__):
                    raise
            with self._ballast.lent():
                return transact()

        do = transact_on_a_full_disk if uses_ballast else transact
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, do)
        except StoreFault as fault:
            self.trouble = str(fault)
            self._has_failed.set()
            raise

    async def upkeep(self) -> None:
        """Fill up the reserve of disk space whenever there is room for it, until cancelled."""
        while self._ballast:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._ballast.fill_up)
            await asyncio.sleep(BALLAST_SECONDS)
        await asyncio.Event().wait()

    async def recover(self) -> None:
        """Write something after a failure, to learn when that works again."""
        while True:
            await self._has_failed.wait()
            self._has_failed.clear()
            await self._do(lambda db: db.execute(f"PRAGMA user_version = {SQLITE_VERSION}"))
            self.trouble = ""


@contextlib.asynccontextmanager
async def open_sqlite(
    path: Path, ballast: Ballast | None = None, data_dir_id: str = ""
) -> AsyncIterator[SqliteStore]:
    """Open the database of a data directory, making it at the first start.

    Raises StartupError, also when it is that of another data directory or server.
    """
    loop = asyncio.get_running_loop()
    # As urgent as the event loop, which waits for it whenever it has the interpreter's lock.
    with hold(path), ThreadPoolExecutor(1, "store", initializer=run_before_others) as thread:
        connection = await loop.run_in_executor(thread, connect, path, data_dir_id)
        try:
            yield SqliteStore(connection, thread, ballast, data_dir_id)
        finally:
            await loop.run_in_executor(thread, connection.close)


class _Recent:
    """The last changes, in memory: one process makes them all. Used on the store's thread."""

    def __init__(self) -> None:
        """Begin now; a position of a former process means everything."""
        self.has_changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._run = secrets.token_hex(8)
        self._number = 0
        self._ids: collections.deque[str] = collections.deque(maxlen=CHANGES_KEPT)

    @property
    def position(self) -> str:
        """Where whoever has heard everything goes on."""
        return f"{self._run}:{self._number}"

    def add(self, sandbox_id: str) -> None:
        """Note a change, after it is in the database."""
        self._number += 1
        self._ids.append(sandbox_id)
        self._loop.call_soon_threadsafe(self.has_changed.set)

    def since(self, position: str | None) -> Sequence[str] | None:
        """Return whom changes after a position were about; None when that is not known."""
        run, _, number = (position or "").partition(":")
        behind = self._number - int(number) if run == self._run else CHANGES_KEPT + 1
        if behind > len(self._ids):
            return None
        return list(dict.fromkeys(list(self._ids)[len(self._ids) - behind :]))


def _microseconds(at: float) -> int:
    return round(at * 1e6)


def _conditions(query: Query) -> tuple[list[str], list[Any]]:
    """Write what is asked for as conditions, and the values in them."""
    where: list[str] = []
    values: list[Any] = []
    if query.owner is not None:
        where.append("owner = ?")
        values.append(query.owner)
    if query.states:
        where.append(f"state IN ({', '.join('?' * len(query.states))})")
        values.extend(query.states)
    for pair in query.metadata.items():
        where.append("EXISTS (SELECT 1 FROM json_each(metadata) WHERE key = ? AND value = ?)")
        values.extend(pair)
    return where, values


def _readable(rows: Iterable[tuple[Any, ...]]) -> list[StoredSandbox]:
    found = []
    for row in rows:
        try:
            found.append(read_row(row))
        except NotUnderstood as reason:
            log.error("sandbox %s cannot be had: %s", row[0], reason)
    return found


def _take_key(db: sqlite3.Connection, key: UsedKey, now: float) -> UsedKey | None:
    """Keep a key, or return what it was used for before."""
    oldest = now - contract.KEY_LIFETIME_SECONDS
    db.execute("DELETE FROM idempotency WHERE at < ?", (oldest,))
    values = (key.owner, key.key, key.fingerprint, key.sandbox_id, now)
    sql = "INSERT INTO idempotency VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, key) DO NOTHING"
    return None if db.execute(sql, values).rowcount else _used_key(db, key.owner, key.key, oldest)


def _used_key(db: sqlite3.Connection, owner: str, key: str, oldest: float) -> UsedKey | None:
    query = (
        "SELECT owner, key, fingerprint, sandbox_id FROM idempotency"
        " WHERE owner = ? AND key = ? AND at >= ?"
    )
    row = db.execute(query, (owner, key, oldest)).fetchone()
    return UsedKey(*row) if row else None


def _note(db: sqlite3.Connection, sandbox_id: str, event: Event) -> None:
    row = (sandbox_id, event.at, event.kind, event.message)
    number = db.execute(
        "INSERT INTO events (sandbox_id, at, kind, message) VALUES (?, ?, ?, ?)", row
    ).lastrowid
    if number and number % contract.EVENTS_KEPT == 0:
        db.execute(
            "DELETE FROM events WHERE sandbox_id = ? AND number <= ("
            "SELECT number FROM events WHERE sandbox_id = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (sandbox_id, sandbox_id, contract.EVENTS_KEPT),
        )


def _is_full(fault: BaseException | None) -> bool:
    """True when SQLite had no room; for some of its files it does not say so plainly."""
    name = fault.sqlite_errorname if isinstance(fault, sqlite3.Error) else ""
    return name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR")


@contextlib.contextmanager
def _store_faults() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as fault:
        raise StoreFault(f"The store cannot be used: {fault}.") from fault
