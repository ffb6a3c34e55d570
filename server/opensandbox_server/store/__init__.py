# SPDX-License-Identifier: Apache-2.0
"""What the server remembers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager

from opensandbox_server.errors import StartupError
from opensandbox_server.host.data_dir import DataDir
from opensandbox_server.runtimes.base import Runtime
from opensandbox_server.settings.settings import Settings
from opensandbox_server.store.sqlite import open_sqlite
from opensandbox_server.store.sqlite_file import read_file
from opensandbox_server.store.store import Store
from opensandbox_server.store.stored import NotUnderstood, StoredSandbox


def open_store(
    settings: Settings, data: DataDir, runtime: Runtime
) -> AbstractAsyncContextManager[Store]:
    """Open the store that the settings choose. Raises StartupError, also when it is entered."""
    if settings.store.type == "sqlite":
        return open_sqlite(settings.store_path, data.ballast, data.id())
    with _needs_the_driver():
        from opensandbox_server.store.postgres import open_postgres
    place = runtime.place()
    return open_postgres(
        settings.store_url,
        place or data.id(),
        is_exclusive=not place,
        options=settings.store.postgresql,
    )


def read_rows(settings: Settings, runtime: Runtime) -> Mapping[str, StoredSandbox | NotUnderstood]:
    """Return every row, beside a server that may be using the store. Raises StartupError."""
    if settings.store.type == "sqlite":
        return read_file(settings.store_path)
    with _needs_the_driver():
        from opensandbox_server.store.postgres import read_place
    place = runtime.place() or DataDir(settings.data_dir).id()
    return asyncio.run(read_place(settings.store_url, place, settings.store.postgresql))


@contextlib.contextmanager
def _needs_the_driver() -> Iterator[None]:
    try:
        yield
    except ImportError as fault:
        raise StartupError(
            "store.type: asyncpg, which speaks with PostgreSQL, is not installed here; "
            "install it with: pip install 'opensandbox-server[postgres]'"
        ) from fault
