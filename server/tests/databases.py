# SPDX-License-Identifier: Apache-2.0
"""Databases for tests of the store: any number of clients, and a hand inside."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import asyncpg

from opensandbox_server.store.postgres import open_postgres
from opensandbox_server.store.sqlite import SqliteStore, open_sqlite
from opensandbox_server.store.store import Store


class Database(ABC):
    """One database, empty at first."""

    @abstractmethod
    def open(self, data_dir_id: str = "") -> AbstractAsyncContextManager[Store]:
        """Open a client of it; there may be several."""

    @abstractmethod
    def execute(self, sql: str, *values: object) -> None:
        """Do something to it behind the store's back; values stand at %s."""

    def spoil(self, sandbox_id: str) -> None:
        """Make a row that no version can read."""
        self.execute("""UPDATE sandboxes SET spec = '{"image": 1}' WHERE id = %s""", sandbox_id)


class SqliteDatabase(Database):
    """A file. Its clients share one store: a second one would be refused."""

    def __init__(self, path: Path) -> None:
        """Say where; nothing is made yet."""
        self.path = path
        self._store: SqliteStore | None = None

    @contextlib.asynccontextmanager
    async def open(self, data_dir_id: str = "") -> AsyncIterator[Store]:
        """Open the store, or have what is open."""
        if self._store:
            yield self._store
            return
        async with open_sqlite(self.path, None, data_dir_id) as self._store:
            try:
                yield self._store
            finally:
                self._store = None

    def execute(self, sql: str, *values: object) -> None:
        """Do something in a connection of its own."""
        with contextlib.closing(sqlite3.connect(self.path)) as db, db:
            db.execute(sql.replace("%s", "?"), values)


class PostgresDatabase(Database):
    """A schema in a server of the tests. A client with a data directory has a place of its own."""

    def __init__(self, url: str) -> None:
        """Say where; nothing is made yet."""
        self.url = url

    def open(self, data_dir_id: str = "") -> AbstractAsyncContextManager[Store]:
        """Open another client, of a place that is shared unless it is a data directory."""
        return open_postgres(self.url, data_dir_id or "shared", is_exclusive=bool(data_dir_id))

    def execute(self, sql: str, *values: object) -> None:
        """Do something in a connection of its own."""
        self.fetch(sql, *values)

    def fetch(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask for something in a connection of its own."""
        numbers = iter(range(1, len(values) + 1))
        text = re.sub("%s", lambda _: f"${next(numbers)}", sql)

        async def ask() -> list[tuple[Any, ...]]:
            db = await asyncpg.connect(self.url)
            try:
                return [tuple(row) for row in await db.fetch(text, *values)]
            finally:
                await db.close()

        return _elsewhere(ask())


def _elsewhere(work: Coroutine[Any, Any, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """Run it in a loop of another thread: here one may be running."""
    found: list[tuple[Any, ...]] = []
    thread = threading.Thread(target=lambda: found.extend(asyncio.run(work)))
    thread.start()
    thread.join()
    return found
