# SPDX-License-Identifier: Apache-2.0
"""What the server remembers."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from opensandbox_server.host.data_dir import DataDir
from opensandbox_server.settings.settings import Settings
from opensandbox_server.store import sqlite
from opensandbox_server.store.sqlite import Store


def open_store(settings: Settings, data: DataDir) -> AbstractAsyncContextManager[Store]:
    """Open the store of a data directory. Raises StartupError when it is entered."""
    return sqlite.open_store(settings.store_path, data.ballast, data.id())
