# SPDX-License-Identifier: Apache-2.0
"""What the server remembers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from opensandbox_server.host.data_dir import DataDir
from opensandbox_server.settings.settings import Settings
from opensandbox_server.store.sqlite import open_sqlite
from opensandbox_server.store.sqlite_file import read_file
from opensandbox_server.store.store import Store
from opensandbox_server.store.stored import NotUnderstood, StoredSandbox


def open_store(settings: Settings, data: DataDir) -> AbstractAsyncContextManager[Store]:
    """Open the store that the settings choose. Raises StartupError when it is entered."""
    return open_sqlite(settings.store_path, data.ballast, data.id())


def read_rows(settings: Settings) -> Mapping[str, StoredSandbox | NotUnderstood]:
    """Return every row, beside a server that may be using the store. Raises StartupError."""
    return read_file(settings.store_path)
