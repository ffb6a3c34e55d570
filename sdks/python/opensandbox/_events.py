# SPDX-License-Identifier: Apache-2.0
"""Reads event streams and folds them into executions. Knows no network.

A frame is one line of JSON, bare or behind ``data:``. Only a line feed ends a line. Frames that
are no event (no type, no timestamp, not JSON) are passed over, as every client does.
"""

import base64
import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

from opensandbox.exceptions import SandboxInternalException
from opensandbox.models.execd import (
    CommandReplay,
    Execution,
    ExecutionComplete,
    ExecutionError,
    ExecutionInit,
    ExecutionResult,
    OutputMessage,
)

Event = dict[str, Any]
ExecutionEvent = (
    ExecutionInit | OutputMessage | ExecutionResult | ExecutionError | ExecutionComplete
)

# Daemons keep lines under 4 MiB. Whoever sends a longer one wants to fill our memory.
MAX_LINE = 16 << 20


class Kind(Enum):
    """What was asked for; it decides what the end of a stream means."""

    COMMAND = "command"
    BACKGROUND = "background"
    SESSION = "session"
    CODE = "code"
    REPLAY = "replay"

    @property
    def has_exit_code(self) -> bool:
        """A background command has not ended when its stream has; code has no exit code."""
        return self not in (Kind.BACKGROUND, Kind.CODE)

    @property
    def ends_with_event(self) -> bool:
        """Whether a stream without a last word was cut; code of older daemons may have none."""
        return self in (Kind.COMMAND, Kind.BACKGROUND, Kind.SESSION)


class EventReader:
    """Cuts bytes, as they arrive, into events."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """Take more bytes and yield the events they complete."""
        first, *rest = data.split(b"\n")
        self._keep(first)
        for piece in rest:
            line = self._take()
            self._keep(piece)
            yield from _events_in(line)

    def finish(self) -> Iterator[Event]:
        """Yield the event of a last line that nothing ended, if it is one."""
        yield from _events_in(self._take())

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MAX_LINE:
            raise SandboxInternalException(f"a line of the event stream exceeds {MAX_LINE} bytes")
        self._pieces.append(piece)

    def _take(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return line


def _events_in(line: bytes) -> Iterator[Event]:
    data = line.removeprefix(b"data:").strip()
    if not data.startswith(b"{"):
        return
    try:
        frame = json.loads(data)
    except (ValueError, RecursionError):
        return  # cut in the middle of a frame, or not meant for us
    yield frame


class Fold:
    """Folds events into an execution, one at a time."""

    def __init__(self, kind: Kind, *, keeps_output: bool = True) -> None:
        self.kind = kind
        self.execution = Execution()
        self._keeps_output = keeps_output

    @property
    def is_over(self) -> bool:
        """Nothing more is worth waiting for, although the stream may not have ended."""
        return self.kind is Kind.BACKGROUND and self.execution.complete is not None

    @property
    def has_ended(self) -> bool:
        """The run has said how it ended; one in the background has only to say that it began."""
        if self.kind is Kind.BACKGROUND and self.execution.id is not None:
            return True
        return self.execution.complete is not None or self.execution.error is not None

    def add(self, event: Event) -> ExecutionEvent | None:
        """Take one event in and return what it meant, if it meant anything."""
        timestamp = event.get("timestamp")
        if self.kind is Kind.CODE and "type" not in event and {"code", "message"} <= event.keys():
            error = {"ename": event["code"], "evalue": event["message"]}
            event, timestamp = {"type": "error", "error": error}, 0
        if not isinstance(timestamp, int):
            return None
        try:
            return self._add(event, timestamp)
        except ValueError:
            return None  # of the wrong shape, so not an event either

    def finish(self) -> Execution:
        """Return the execution, its exit code worked out."""
        if self.kind.has_exit_code:
            self.execution.exit_code = _exit_code(self.execution)
        return self.execution

    def _add(self, event: Event, timestamp: int) -> ExecutionEvent | None:
        match event:
            case {"type": "init", "text": str(text)}:
                self.execution.id = text
                return ExecutionInit(id=text, timestamp=timestamp)
            case {"type": "stdout" | "stderr" as stream, "text": str(text)}:
                return self._add_output(text, timestamp, is_error=stream == "stderr")
            case {"type": "execution_count", "execution_count": int(count)}:
                self.execution.execution_count = count
            case {"type": "result", "results": dict(results)}:
                return self._add_result(results, event, timestamp)
            case {"type": "error", "error": dict(error)}:
                self.execution.error = _error(error, timestamp)
                return self.execution.error
            case {"type": "execution_complete"}:
                self.execution.complete = ExecutionComplete(
                    timestamp=timestamp,
                    execution_time_in_millis=event.get("execution_time", 0),
                )
                return self.execution.complete
        return None

    def _add_output(self, text: str, timestamp: int, *, is_error: bool) -> OutputMessage:
        message = OutputMessage(text=text, timestamp=timestamp, is_error=is_error)
        if self._keeps_output:
            logs = self.execution.logs
            (logs.stderr if is_error else logs.stdout).append(message)
        return message

    def _add_result(self, results: dict[str, Any], event: Event, timestamp: int) -> ExecutionResult:
        result = ExecutionResult(
            text=_as_text(results["text"]) if "text" in results else None,
            timestamp=timestamp,
            extra_properties={
                media: _form(media, value) for media, value in results.items() if media != "text"
            },
            display_id=event.get("display_id"),
            is_update=event.get("update") is True,
        )
        self.execution.result.append(result)
        return result


class ReplayFold(Fold):
    """Folds a replay: an execution and, besides, the exact bytes of its output."""

    def __init__(self, *, keeps_output: bool = True) -> None:
        super().__init__(Kind.REPLAY, keeps_output=keeps_output)
        self._outputs = {"stdout": bytearray(), "stderr": bytearray()}
        self._gaps: list[tuple[int, int]] = []
        self._cursor = 0

    def add(self, event: Event) -> ExecutionEvent | None:
        """Take one event in and return what it meant, if it meant anything."""
        parsed = super().add(event)
        match event:
            case {"type": "gap", "cursor": int(cursor)}:
                self._gaps.append((self._cursor, cursor))
            case {"type": "stdout" | "stderr" as stream, "base64": str(encoded)}:
                parsed = self._add_raw(stream, _bytes_of(encoded), event)
            case {"type": "stdout" | "stderr" as stream, "text": str(text)}:
                parsed = self._add_raw(stream, text.encode(errors="surrogatepass"), event)
        if isinstance(reached := event.get("cursor"), int):
            self._cursor = reached
        return parsed

    def _add_raw(self, stream: str, raw: bytes, event: Event) -> OutputMessage:
        if self._keeps_output:
            self._outputs[stream] += raw
        timestamp = event.get("timestamp")
        return OutputMessage(
            text=raw.decode(errors="replace"),
            timestamp=timestamp if isinstance(timestamp, int) else 0,
            is_error=stream == "stderr",
            raw=raw,
        )

    def finish_replay(self) -> CommandReplay:
        """Return everything there was to see."""
        return CommandReplay(
            execution=self.finish(),
            stdout=bytes(self._outputs["stdout"]),
            stderr=bytes(self._outputs["stderr"]),
            cursor=self._cursor,
            gaps=self._gaps,
        )


def _error(error: dict[str, Any], timestamp: int) -> ExecutionError:
    return ExecutionError(
        name=str(error.get("ename") or ""),
        value=str(error.get("evalue") or ""),
        timestamp=timestamp,
        traceback=error.get("traceback") or [],
    )


def _bytes_of(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded)
    except ValueError as cause:
        raise SandboxInternalException("the replay is not base64", cause) from cause


def _form(media: str, value: object) -> str:
    # JSON that is a string is not what the string says.
    if media.endswith(("/json", "+json")):
        return json.dumps(value, ensure_ascii=False)
    return _as_text(value)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _exit_code(execution: Execution) -> int | None:
    if execution.error is not None:
        try:
            return int(execution.error.value)
        except ValueError:
            return None  # it never ran, or what ran has no number for how it ended
    return 0 if execution.complete is not None else None
