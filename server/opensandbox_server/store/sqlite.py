# SPDX-License-Identifier: Apache-2.0
"""What the server remembers: SQLite with a write-ahead log, one connection on one thread."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from opensandbox_server.errors import StartupError, StoreFault
from opensandbox_server.host.ballast import Ballast
from opensandbox_server.host.priority import run_before_others
from opensandbox_server.sandboxes import wanted as wants
from opensandbox_server.sandboxes.seen_keys import SeenKeys
from opensandbox_server.sandboxes.wanted import Wanted

VERSION = 1
KEY_LIFETIME_SECONDS = 24 * 3600
"""How long a create may be repeated with the same idempotency key."""

BALLAST_SECONDS = 30.0
"""How often it is looked whether there is room for a reserve that was used up."""

EVENTS_KEPT = 500
"""Events remembered of one sandbox."""

_SCHEMA = """
CREATE TABLE sandboxes (id TEXT PRIMARY KEY, wanted TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    number INTEGER PRIMARY KEY, sandbox_id TEXT NOT NULL,
    at REAL NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL);
CREATE INDEX events_of ON events (sandbox_id, number);
CREATE TABLE idempotency (
    key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL,
    sandbox_id TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (at);
"""

_FACTS = "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
"""Not part of the version: a former server does well without it."""

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a sandbox."""

    at: float
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """A create that was done under an idempotency key."""

    key: str
    fingerprint: str
    sandbox_id: str


class Store:
    """Wanted state. Every method is one transaction; they happen in the order they were called."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        thread: ThreadPoolExecutor,
        seen_keys: SeenKeys,
        ballast: Ballast | None = None,
        owner: str = "",
    ) -> None:
        """Take a connection that was made on that thread; see open_store."""
        self._ballast = ballast
        self._connection = connection
        self._thread = thread
        self._seen_keys = seen_keys
        self._has_failed = asyncio.Event()
        self.trouble = ""
        """Why a transaction failed; empty once writing works again."""
        self._owner = owner

    async def sandboxes(self) -> Sequence[Wanted]:
        """Return everything wanted; a row that cannot be read is said, and left as it is."""
        rows = await self._do(lambda db: db.execute("SELECT id, wanted FROM sandboxes").fetchall())
        found = []
        for sandbox_id, text in rows:
            try:
                found.append(wants.from_json(text))
            except wants.NotUnderstood as reason:
                log.error("sandbox %s cannot be had: %s", sandbox_id, reason)
        return found

    async def belong(self, present: Sequence[str]) -> None:
        """Become the store of the data directory, if these sandboxes, which are in it, allow it.

        Raises StartupError for a store that never was its, and knows none of them: they would all
        be nobody's.
        """

        def write(db: sqlite3.Connection) -> str:
            if not self._owner or _owner(db):
                return ""
            known = {row[0] for row in db.execute("SELECT id FROM sandboxes")}
            if present and known.isdisjoint(present):
                return min(present)
            db.execute("INSERT INTO facts VALUES ('data_dir', ?)", (self._owner,))
            return ""

        if example := await self._do(write, uses_ballast=True):
            raise StartupError(
                f"the store is new, or another one, and knows none of the {len(present)} sandboxes "
                f"that are here ({example}, …): put back theirs, or set store.path to it; without "
                "it, see: opensandbox-server leftovers list"
            )

    async def insert(self, wanted: Wanted, repeat: Repeat | None = None) -> None:
        """Remember a new sandbox, and the key it may be asked for again with."""
        now = time.time()
        if repeat:
            self._seen_keys.add(repeat.key)

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO sandboxes VALUES (?, ?)", (wanted.id, wants.to_json(wanted)))
            _note(db, wanted.id, Event(now, "Created", f"image {wanted.image}"))
            if repeat:
                db.execute("DELETE FROM idempotency WHERE at < ?", (now - KEY_LIFETIME_SECONDS,))
                values = (repeat.key, repeat.fingerprint, repeat.sandbox_id, now)
                db.execute("INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?)", values)

        await self._do(write)

    async def update(self, wanted: Wanted, kind: str, message: str = "") -> None:
        """Remember a change and what it was; a sandbox that is gone stays gone."""

        def write(db: sqlite3.Connection) -> None:
            values = (wants.to_json(wanted), wanted.id)
            if db.execute("UPDATE sandboxes SET wanted = ? WHERE id = ?", values).rowcount:
                _note(db, wanted.id, Event(time.time(), kind, message))

        await self._do(write)

    async def note(
        self, sandbox_id: str, kind: str, message: str = "", at: float | None = None
    ) -> None:
        """Remember something that happened; nothing is noted of a sandbox that is gone."""
        event = Event(time.time() if at is None else at, kind, message)

        def write(db: sqlite3.Connection) -> None:
            if db.execute("SELECT 1 FROM sandboxes WHERE id = ?", (sandbox_id,)).fetchone():
                _note(db, sandbox_id, event)

        await self._do(write)

    async def delete(self, sandbox_id: str, *, frees_key: bool = False) -> None:
        """Forget a sandbox; with frees_key also that its idempotency key was ever used."""

        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM sandboxes WHERE id = ?", (sandbox_id,))
            db.execute("DELETE FROM events WHERE sandbox_id = ?", (sandbox_id,))
            if frees_key:
                db.execute("DELETE FROM idempotency WHERE sandbox_id = ?", (sandbox_id,))

        await self._do(write, uses_ballast=True)

    async def events(self, sandbox_id: str, limit: int) -> Sequence[Event]:
        """Return the newest events of a sandbox, oldest of them first."""
        query = (
            "SELECT at, kind, message FROM events WHERE sandbox_id = ? ORDER BY number DESC LIMIT ?"
        )
        rows = await self._do(lambda db: db.execute(query, (sandbox_id, limit)).fetchall())
        return [Event(*row) for row in reversed(rows)]

    async def repeat(self, key: str) -> Repeat | None:
        """Return what was made under an idempotency key; a new key waits for nobody."""
        if key not in self._seen_keys:
            return None
        query = "SELECT key, fingerprint, sandbox_id FROM idempotency WHERE key = ? AND at >= ?"
        oldest = time.time() - KEY_LIFETIME_SECONDS
        row = await self._do(lambda db: db.execute(query, (key, oldest)).fetchone())
        return Repeat(*row) if row else None

    async def _do(
        self, work: Callable[[sqlite3.Connection], T], *, uses_ballast: bool = False
    ) -> T:
        def transact() -> T:
            with _store_faults(), self._connection:
                return work(self._connection)

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

    async def keep_ballast(self) -> None:
        """Fill up the reserve of disk space whenever there is room for it, until cancelled."""
        while self._ballast:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._ballast.fill_up)
            await asyncio.sleep(BALLAST_SECONDS)
        await asyncio.Event().wait()

    async def recover(self) -> None:
        """Write something after a failure, to learn when that works again; until cancelled.

        Raises StoreFault while it does not; then call again.
        """
        while True:
            await self._has_failed.wait()
            self._has_failed.clear()
            await self._do(lambda db: db.execute(f"PRAGMA user_version = {VERSION}"))
            self.trouble = ""


@contextlib.asynccontextmanager
async def open_store(
    path: Path, ballast: Ballast | None = None, owner: str = ""
) -> AsyncIterator[Store]:
    """Open the database of the data directory whose id is owner, making it at the first start.

    Raises StartupError, also when it is that of another data directory or server.
    """
    loop = asyncio.get_running_loop()
    # As urgent as the event loop, which waits for it whenever it has the interpreter's lock.
    with _held(path), ThreadPoolExecutor(1, "store", initializer=run_before_others) as thread:
        connection = await loop.run_in_executor(thread, _connect, path)
        try:
            await loop.run_in_executor(thread, _refuse_that_of_another, connection, path, owner)
            seen_keys = await loop.run_in_executor(thread, _seen_keys, connection)
            yield Store(connection, thread, seen_keys, ballast, owner)
        finally:
            await loop.run_in_executor(thread, connection.close)


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
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


def _refuse_that_of_another(db: sqlite3.Connection, path: Path, owner: str) -> None:
    if owner and _owner(db) not in ("", owner):
        raise StartupError(
            f"the store {path} belongs to another data directory: set store.path to the one of "
            "this, or server.data_dir to that of the store"
        )


def _owner(db: sqlite3.Connection) -> str:
    """Return the id of the data directory that a store belongs to; empty when it has none yet."""
    row = db.execute("SELECT value FROM facts WHERE name = 'data_dir'").fetchone()
    return str(row[0]) if row else ""


def _connect(path: Path) -> sqlite3.Connection:
    try:
        path.touch(mode=0o600)
        db = sqlite3.connect(path)
        db.execute("PRAGMA journal_mode = WAL")
        # A crash of the machine may lose the last moment; its sandboxes are gone then too.
        db.execute("PRAGMA synchronous = NORMAL")
        # Tokens and environments of deleted sandboxes must not stay in free pages.
        db.execute("PRAGMA secure_delete = ON")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        if version <= VERSION:
            db.execute(_FACTS)
    except (OSError, sqlite3.Error) as fault:
        raise StartupError(f"cannot open the store {path}: {fault}") from fault
    if version > VERSION:
        db.close()
        raise StartupError(f"the store {path} was written by a newer version of the server")
    return db


def _seen_keys(db: sqlite3.Connection) -> SeenKeys:
    try:
        return SeenKeys(key for (key,) in db.execute("SELECT key FROM idempotency"))
    except sqlite3.Error as fault:
        raise StartupError(f"cannot read the keys in the store: {fault}") from fault


def _note(db: sqlite3.Connection, sandbox_id: str, event: Event) -> None:
    row = (sandbox_id, event.at, event.kind, event.message)
    number = db.execute(
        "INSERT INTO events (sandbox_id, at, kind, message) VALUES (?, ?, ?, ?)", row
    ).lastrowid
    if number and number % EVENTS_KEPT == 0:
        db.execute(
            "DELETE FROM events WHERE sandbox_id = ? AND number <= ("
            "SELECT number FROM events WHERE sandbox_id = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (sandbox_id, sandbox_id, EVENTS_KEPT),
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
