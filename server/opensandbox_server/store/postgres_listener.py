# SPDX-License-Identifier: Apache-2.0
"""The connection that hears of changes. It holds the place, and a position is good only on it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence

from asyncpg import Connection, Record

from opensandbox_server.errors import StartupError, StoreFault
from opensandbox_server.host.supervision import growing_pauses
from opensandbox_server.store import postgres_statements as sql
from opensandbox_server.store.postgres_connection import UNUSABLE, reason, store_faults

LOOK_SECONDS = 30.0
"""How often it is looked whether the connection still works, and whether something was missed."""

HOLD_SECONDS = 3.0
"""How long a server that was killed may go on holding its place."""

log = logging.getLogger(__name__)

News = tuple[str, bool, Sequence[Record]]
"""A position, whether this is everything there is, and rows; the first may have no id."""


class PlaceTaken(StartupError):
    """Another server has the place."""


class Listener:
    """Has a connection at all times, or tries to; see run.

    Positions are snapshots of the database. Another connection may be with another database, after
    a failover or a restore, where the same numbers mean something else: there, everything is read.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection[Record]]],
        place: str,
        *,
        is_exclusive: bool,
    ) -> None:
        """Say how to connect."""
        self._connect = connect
        self._place = place
        self._is_exclusive = is_exclusive
        self._db: Connection[Record] | None = None
        self._name = ""
        self._turn = asyncio.Lock()
        self._is_lost = asyncio.Event()
        self.has_changed = asyncio.Event()
        self.has_failed: Callable[[str], None] = log.error
        """Told why there is no connection."""
        self.refusal = ""
        """Why nothing may be written: somebody else has the place."""

    @property
    def is_connected(self) -> bool:
        """Whether changes are heard, and the place is ours."""
        return self._db is not None and not self._db.is_closed()

    async def open(self) -> None:
        """Connect. Raises what is in UNUSABLE, and PlaceTaken."""
        db = await self._connect()
        try:
            if self._is_exclusive:
                await self._hold(db)
            await db.add_listener(sql.CHANNEL, self._heard)
        except BaseException:
            db.terminate()
            raise
        self._is_lost.clear()
        db.add_termination_listener(lambda _: self._is_lost.set())
        self._db, self._name = db, secrets.token_hex(8)
        self.refusal = ""
        self.has_changed.set()

    async def close(self) -> None:
        """Let the place go."""
        if self._db:
            await end(self._db)

    async def run(self) -> None:
        """Keep a connection until cancelled."""
        pauses = growing_pauses()
        while True:
            if not self.is_connected:
                try:
                    await self.open()
                except (*UNUSABLE, StartupError) as fault:
                    self._failed(fault)
                    await asyncio.sleep(next(pauses))
                    continue
                pauses = growing_pauses()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._is_lost.wait()
            if self.is_connected:
                await self._look()
            else:
                self._failed(ConnectionError("the connection was lost"))

    async def read(self, since: str | None) -> News:
        """Read what changed since a position. Raises StoreFault when there is no connection."""
        self.has_changed.clear()
        async with self._turn:
            if (db := self._db) is None or not self.is_connected:
                self._is_lost.set()  # asyncpg does not always tell
                raise StoreFault("The store cannot be used: the connection was lost.")
            name, _, snapshot = (since or "").partition("/")
            try:
                with store_faults():
                    is_whole = name != self._name
                    rows = [] if is_whole else await db.fetch(sql.CHANGES, self._place, snapshot)
                    if is_whole or rows[0]["is_late"]:
                        is_whole, rows = True, await db.fetch(sql.EVERYTHING, self._place)
            except StoreFault:
                db.terminate()  # whatever it is, the next one begins with everything
                self._is_lost.set()
                raise
            return f"{self._name}/{rows[0]['position']}", is_whole, rows

    async def _hold(self, db: Connection[Record]) -> None:
        """Have the place for this server alone, as long as the connection lives."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HOLD_SECONDS
        while not await db.fetchval(sql.HOLD, self._place):
            if loop.time() > deadline:
                raise PlaceTaken(
                    "the sandboxes of this data directory are in use by another server in the same "
                    "database; stop it, or give this one its own server.data_dir (of a machine "
                    "that just died, the database learns within half a minute)"
                )
            await asyncio.sleep(0.1)

    async def _look(self) -> None:
        """Find out whether the connection works; and let changes be looked for."""
        async with self._turn:
            try:
                assert self._db
                await self._db.fetchval("SELECT 1")
            except UNUSABLE as fault:
                assert self._db
                self._db.terminate()
                self._failed(fault)
        self.has_changed.set()

    def _heard(self, _db: object, _pid: int, _channel: str, place: object) -> None:
        if place == self._place:
            self.has_changed.set()

    def _failed(self, fault: BaseException) -> None:
        if isinstance(fault, PlaceTaken):
            self.refusal = str(fault)
        self.has_failed(f"The store cannot be used: {reason(fault)}.")
        self.has_changed.set()  # something may have: whoever looks learns that nobody can


async def end(db: Connection[Record]) -> None:
    """Close a connection, in any state, soon."""
    try:
        await db.close(timeout=2)
    except UNUSABLE:
        db.terminate()
