# SPDX-License-Identifier: Apache-2.0
"""Connections to PostgreSQL: how each is made, and what it means when one cannot be.

The address may have a password in it. No message has more of it than host and database.
"""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import Iterator
from typing import Any

import asyncpg
from asyncpg import Connection, Record

from opensandbox_server.errors import StartupError, StoreFault
from opensandbox_server.settings.sections import Postgresql
from opensandbox_server.store.migrations import NewerVersion
from opensandbox_server.store.sqlite_file import NEWER

OLDEST_VERSION = 13
"""The first one that tells transactions apart for ever (xid8)."""

STATEMENT_SECONDS = 10
"""Longest that one statement may take, as the database sees it."""

ANSWER_SECONDS = STATEMENT_SECONDS + 5.0
"""Longest wait for its answer: a network that is gone says nothing."""

_SETTINGS = {
    "application_name": "opensandbox-server",
    "default_transaction_isolation": "read committed",  # what the statements are written for
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "60s",
    # A server whose machine is gone holds its place, and its locks, for half a minute at most.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
    "jit": "off",
}

UNUSABLE = (
    *(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError),
    asyncpg.InternalClientError,  # on a connection that the database has just given up
)
"""What asyncpg raises when something cannot be done."""


def arguments(url: str, options: Postgresql) -> dict[str, Any]:
    """Return what every connection is made with. Passwords may also come as libpq takes them."""
    return {
        "dsn": url,
        "timeout": options.connect_timeout_seconds,
        "command_timeout": ANSWER_SECONDS,
        "server_settings": _SETTINGS,
    }


async def connect(url: str, options: Postgresql) -> Connection[Record]:
    """Make a connection. Raises what is in UNUSABLE, and StartupError for one that is too old."""
    try:
        db: Connection[Record] = await asyncpg.connect(**arguments(url, options))
    except (asyncpg.ClientConfigurationError, ValueError):
        # What they say may be a part of the password.
        raise StartupError(
            "store.url: cannot be understood; it is like postgresql://user@host:5432/database, "
            "and what is special in a password is written as %40 for @, say"
        ) from None
    if (found := db.get_server_version()).major < OLDEST_VERSION:
        await db.close()
        raise StartupError(
            f"{name_of(url)} is PostgreSQL {found.major}.{found.minor}; "
            f"the store needs {OLDEST_VERSION} or newer"
        )
    return db


def name_of(url: str) -> str:
    """Name a database by its host, without what else may be in the address."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return "the database of store.url"
    host = parts.netloc.rpartition("@")[2] or "this machine"
    if "@" in parts.path:  # a password that was not written as it should be
        return "the database of store.url"
    return f"the database {parts.path.lstrip('/')} at {host}".replace("  ", " ")


def reason(fault: BaseException) -> str:
    """Say what is wrong, without the rows that PostgreSQL shows beside it."""
    if isinstance(fault, TimeoutError):
        return "it does not answer"
    if isinstance(fault, OSError):
        return fault.strerror or str(fault)
    return str(fault.args[0]) if fault.args else type(fault).__name__


@contextlib.contextmanager
def startup_faults(url: str) -> Iterator[None]:
    """Say what an operator can do when the store cannot be opened."""
    name = name_of(url)
    try:
        yield
    except NewerVersion as fault:
        raise StartupError(NEWER.format(f"in {name}")) from fault
    except UNUSABLE as fault:
        advice = next((text for kind, text in _ADVICE.items() if isinstance(fault, kind)), "")
        told = f"cannot use {name} as store: {reason(fault)}"
        raise StartupError(f"{told}; {advice}" if advice else told) from None


_ADVICE: dict[type[BaseException], str] = {
    asyncpg.InvalidPasswordError: (
        "give the right password in store.url, PGPASSWORD or the file that PGPASSFILE names"
    ),
    asyncpg.InvalidAuthorizationSpecificationError: (
        "make the role, or allow it in pg_hba.conf, or name another in store.url"
    ),
    asyncpg.InvalidCatalogNameError: "make it, as its superuser: createdb --owner=ROLE DATABASE",
    asyncpg.InsufficientPrivilegeError: (
        "as its superuser: ALTER DATABASE database OWNER TO role, "
        "or GRANT CREATE, USAGE ON SCHEMA public TO role"
    ),
    asyncpg.InvalidSchemaNameError: "the first schema of search_path must be there",
    asyncpg.TooManyConnectionsError: (
        "raise its max_connections, or lower store.postgresql.max_pool_size"
    ),
    asyncpg.CannotConnectNowError: "try again in a moment",
    asyncpg.ReadOnlySQLTransactionError: (
        "name the one that can be written to, or add ?target_session_attrs=read-write"
    ),
    OSError: "see that PostgreSQL runs there and that store.url names it",
    TimeoutError: "see that PostgreSQL runs there and that store.url names it",
}


@contextlib.contextmanager
def store_faults() -> Iterator[None]:
    """Turn what asyncpg raises into what the API answers."""
    try:
        yield
    except UNUSABLE as fault:  # without its rows, which may have secrets
        raise StoreFault(f"The store cannot be used: {reason(fault)}.") from None
