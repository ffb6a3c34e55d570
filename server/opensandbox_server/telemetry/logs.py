# SPDX-License-Identifier: Apache-2.0
"""Where log lines go, and what they look like."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from opensandbox_server.errors import StartupError
from opensandbox_server.settings.sections import Log
from opensandbox_server.telemetry.context import known_ids

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the ids of what it is about."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; an access line has its values also one by one."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **known_ids(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logs(settings: Log) -> None:
    """Write to standard error, and to files when the settings say so. Raises StartupError."""
    to_stderr = logging.StreamHandler()
    to_stderr.setFormatter(_formatter(settings))
    logging.basicConfig(level=settings.level, handlers=[to_stderr], force=True)
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
    handler.setFormatter(_formatter(settings))
    return handler


def _formatter(settings: Log) -> logging.Formatter:
    return JsonFormatter() if settings.format == "json" else logging.Formatter(_FORMAT)
