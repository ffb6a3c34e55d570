# SPDX-License-Identifier: Apache-2.0
"""Where log lines go."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from opensandbox_server.errors import StartupError
from opensandbox_server.settings.sections import Log

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def set_up_logs(settings: Log) -> None:
    """Write to standard error, and to files when the settings say so. Raises StartupError."""
    logging.basicConfig(level=settings.level, format=_FORMAT, force=True)
    if settings.level != "DEBUG":
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
    access = logging.getLogger("opensandbox_server.access")
    access.setLevel(logging.INFO if settings.file_enabled else logging.WARNING)
    if settings.level == "DEBUG":
        access.setLevel(logging.INFO)
    if not settings.file_enabled:
        return
    logging.getLogger().addHandler(_file(settings.file_path, settings))
    access.addHandler(_file(settings.access_file_path, settings))
    access.propagate = False


def _file(path: Path, settings: Log) -> logging.Handler:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(
            path, maxBytes=settings.file_max_bytes, backupCount=settings.file_backup_count
        )
    except OSError as fault:
        raise StartupError(f"cannot write the log {path}: {fault.strerror}") from fault
    handler.setFormatter(logging.Formatter(_FORMAT))
    return handler
