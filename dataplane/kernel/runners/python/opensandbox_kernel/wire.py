# SPDX-License-Identifier: Apache-2.0
"""The connection of one context with the daemon: JSON, one object on a line."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import sys
import threading
from typing import Any


class Wire:
    """Says things to the daemon. Any thread may; a process forked by the code may not."""

    def __init__(self, connection: socket.socket, acknowledgements: int) -> None:
        self._connection = connection
        self._acknowledgements = acknowledgements
        self._lock = threading.Lock()
        self._owner = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Say whether this is the context itself and not a process forked in a cell."""
        return os.getpid() == self._owner

    def say(self, **message: Any) -> None:
        """Send one message."""
        line = json.dumps(message, default=_plain).encode() + b"\n"
        self._connection.sendall(line)

    def show(self, data: dict[str, Any], **rest: Any) -> None:
        """Send a result, and return when the daemon has told it, so that output stays in order."""
        if not self.is_ours:
            return
        flush_output()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with self._lock:
                encoded = {kind: _encoded(value) for kind, value in data.items()}
                self.say(type="result", data=encoded, **rest)
                os.read(self._acknowledgements, 1)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def flush_output() -> None:
    """Push out what was printed, whoever sys.stdout is by now."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the code replaced or closed it: nothing to flush
            stream.flush()


def _encoded(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _plain(value: Any) -> Any:
    """Make JSON of what json does not know, such as numbers of numpy in a custom MIME bundle."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
