# SPDX-License-Identifier: Apache-2.0
"""The reference fold: what every client makes of an event stream, by the rules in `specs/`."""

import base64
import json
from collections.abc import Iterator
from typing import Any

Event = dict[str, Any]
Execution = dict[str, Any]


def frames(stream: bytes) -> Iterator[Event]:
    """Yield the JSON objects of a stream, framed bare or as `data:` lines."""
    for line in stream.decode().split("\n"):  # not splitlines: U+0085 and U+2028 end no line here
        data = line.removeprefix("data:").strip()
        if not data.startswith("{"):
            continue
        try:
            yield json.loads(data)
        except json.JSONDecodeError:
            continue  # the stream was cut in the middle of a frame


def fold(stream: bytes, kind: str) -> Execution:
    """Fold a stream. `kind` is what was asked for: command, background, session, code, replay."""
    execution: Execution = {
        "kind": kind,
        "id": None,
        "execution_count": None,
        "stdout": [],
        "stderr": [],
        "result": [],
        "error": None,
        "complete": None,
    }
    replay = _Replay()
    for frame in frames(stream):
        event = _usable(frame, kind)
        if event is None:
            continue
        replay.add(event)
        _add(execution, event)
        if kind == "background" and execution["complete"]:
            break
    execution["exit_code"] = _exit_code(execution)
    execution["text"] = _text(execution)
    if kind == "replay":
        execution["replay"] = replay.folded()
    return execution


def _usable(frame: Event, kind: str) -> Event | None:
    if "type" in frame and isinstance(frame.get("timestamp"), int):
        return frame
    if kind == "code" and "code" in frame and "message" in frame:
        error = {"ename": frame["code"], "evalue": frame["message"], "traceback": []}
        return {"type": "error", "error": error}
    return None


def _add(execution: Execution, event: Event) -> None:
    match event:
        case {"type": "init", "text": text}:
            execution["id"] = text
        case {"type": "stdout" | "stderr" as stream, "text": text}:
            execution[stream].append(text)
        case {"type": "execution_count", "execution_count": count}:
            execution["execution_count"] = count
        case {"type": "result", "results": results}:
            execution["result"].append(results)
        case {"type": "error", "error": {"ename": name, "evalue": value, "traceback": lines}}:
            execution["error"] = {"name": name, "value": value, "traceback": lines}
        case {"type": "execution_complete", "execution_time": milliseconds}:
            execution["complete"] = {"execution_time": milliseconds}


def _exit_code(execution: Execution) -> int | None:
    if execution["kind"] in ("background", "code"):
        return None
    if execution["error"]:
        try:
            return int(execution["error"]["value"])
        except ValueError:
            return None
    return 0 if execution["complete"] else None


def _text(execution: Execution) -> str:
    joined = ""
    for piece in execution["stdout"]:
        touches = joined.endswith(("\r", "\n")) or piece.startswith(("\r", "\n"))
        joined += piece if not joined or touches else "\n" + piece
    joined = joined.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    results = [result.get("text", "").rstrip("\n") for result in execution["result"]]
    return "\n".join(part for part in (joined, *results) if part)


class _Replay:
    """The bytes of both outputs, and where the journal had none."""

    def __init__(self) -> None:
        self.outputs = {"stdout": b"", "stderr": b""}
        self.cursor = 0
        self.gaps: list[list[int]] = []

    def add(self, event: Event) -> None:
        if "cursor" not in event:
            return
        if event["type"] == "gap":
            self.gaps.append([self.cursor, event["cursor"]])
        elif event["type"] in self.outputs:
            piece = base64.b64decode(event["base64"]) if "base64" in event else None
            self.outputs[event["type"]] += event["text"].encode() if piece is None else piece
        self.cursor = event["cursor"]

    def folded(self) -> dict[str, Any]:
        encoded = {name: base64.b64encode(data).decode() for name, data in self.outputs.items()}
        return {"cursor": self.cursor, "gaps": self.gaps, "base64": encoded}
