# SPDX-License-Identifier: Apache-2.0
"""The messages of a terminal's WebSocket. Knows no connection."""

import json
from dataclasses import dataclass

_INPUT = b"\x00"
_OUTPUTS = (0x01, 0x02)
_REPLAY = 0x03
_REPLAY_HEAD = 9  # the kind and the offset of the first byte


@dataclass(frozen=True)
class Output:
    """Bytes that the program wrote; a replay also says where they begin."""

    data: bytes
    offset: int | None = None


@dataclass(frozen=True)
class Exit:
    """The program ended."""

    exit_code: int


@dataclass(frozen=True)
class Problem:
    """The daemon could not do something."""

    code: str
    message: str


def read_frame(message: str | bytes) -> Output | Exit | Problem | None:
    """Read a message of the daemon; one that says nothing new is None."""
    if isinstance(message, bytes):
        return _read_output(message)
    try:
        frame = json.loads(message)
    except ValueError:
        return None
    match frame:
        case {"type": "exit", "exit_code": int(code)}:
            return Exit(code)
        case {"type": "error", "code": str(code), "error": str(text)}:
            return Problem(code, text)
    return None


def _read_output(message: bytes) -> Output | None:
    if message[:1] and message[0] in _OUTPUTS:
        return Output(message[1:])
    if len(message) >= _REPLAY_HEAD and message[0] == _REPLAY:
        offset = int.from_bytes(message[1:_REPLAY_HEAD], "big")
        return Output(message[_REPLAY_HEAD:], offset)
    return None


def input_frame(data: bytes | str) -> bytes:
    """Return the message that types something."""
    return _INPUT + (data.encode() if isinstance(data, str) else data)


def resize_frame(rows: int, columns: int) -> str:
    """Return the message that changes the size."""
    return json.dumps({"type": "resize", "rows": rows, "cols": columns})


def signal_frame(name: str) -> str:
    """Return the message that sends a signal, ``SIGINT`` for example."""
    return json.dumps({"type": "signal", "signal": name})
