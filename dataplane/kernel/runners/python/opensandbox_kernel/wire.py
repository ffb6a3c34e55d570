# SPDX-License-Identifier: Apache-2.0
"""The connection of one context with the daemon: JSON, one object on a line."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import signal
import socket
import sys
import threading
from os import getpid, read, set_inheritable
from typing import Any


class Wire:
    """Says things to the daemon. Any thread may; a process forked by the code may not."""

    def __init__(self, connection: socket.socket, acknowledgements: int) -> None:
        connection.set_inheritable(False)  # programs that the code starts have no business there
        set_inheritable(acknowledgements, False)
        self._connection = connection
        self._acknowledgements = acknowledgements
        self._lock = threading.Lock()
        self._owner = getpid()

    @property
    def is_ours(self) -> bool:
        """Say whether this is the context itself and not a process forked in a cell."""
        return getpid() == self._owner

    def say(self, **message: Any) -> None:
        """Send one message. Its type must be the first of its fields."""
        self._connection.sendall(_line(message))

    def show(self, data: dict[str, Any], **rest: Any) -> None:
        """Send a result, and return when the daemon has sent it, so that output stays in order."""
        if not self.is_ours:
            return
        flush_output()
        encoded = {kind: _encoded(value) for kind, value in data.items()}
        line = _line({"type": "result", "data": encoded, **rest})  # may run code's own methods
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            # An interrupt that has come already is raised by this, with the signal blocked.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            with self._lock:
                self._connection.sendall(line)
                read(self._acknowledgements, 1)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def flush_output() -> None:
    """Push out what was printed, whoever sys.stdout is by now."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the code replaced or closed it: nothing to flush
            stream.flush()


def _encoded(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _line(message: dict[str, Any]) -> bytes:
    try:
        text = _encode(message)
    except ValueError:
        text = _encode(_finite(message))
    return text.encode() + b"\n"


def _finite(value: Any) -> Any:
    """Return a value with null for what JSON has no number for, as data often contains it."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    """Make JSON of what json does not know, such as numbers of numpy in a custom MIME bundle."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain).encode
