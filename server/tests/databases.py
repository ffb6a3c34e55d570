# SPDX-License-Identifier: Apache-2.0
"""Databases for tests of the store: any number of clients, and a hand inside."""

from __future__ import annotations

import contextlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

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
