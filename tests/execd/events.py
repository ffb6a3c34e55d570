# SPDX-License-Identifier: Apache-2.0
"""Runs things through the daemon and folds their event streams, strictly."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

Event = dict[str, Any]


@dataclass(frozen=True)
class Execution:
    """The events of one run, folded as clients do."""

    events: list[Event]

    @property
    def id(self) -> str:
        """Return the text of the init event, which comes first."""
        assert self.events[0]["type"] == "init"
        return str(self.events[0]["text"])

    @property
    def stdout(self) -> list[str]:
        """Return one text for each stdout event."""
        return [event["text"] for event in self.events if event["type"] == "stdout"]

    @property
    def stderr(self) -> list[str]:
        """Return one text for each stderr event."""
        return [event["text"] for event in self.events if event["type"] == "stderr"]

    @property
    def error(self) -> Event | None:
        """Return the body of the error event when the run failed."""
        terminal = self.terminal
        return terminal["error"] if terminal["type"] == "error" else None

    @property
    def terminal(self) -> Event:
        """Return the one terminal event; it is the last."""
        terminals = [e for e in self.events if e["type"] in ("error", "execution_complete")]
        assert len(terminals) == 1, self.events
        assert self.events[-1] is terminals[0], self.events
        return terminals[0]

    @property
    def exit_code(self) -> int | None:
        """Compute the exit code as the published clients do."""
        if self.error is None:
            return 0
        value = self.error["evalue"]
        return int(value) if value.lstrip("-").isdigit() else None


def parse(content: bytes) -> list[Event]:
    """Split a whole stream; every frame is one line of JSON with a type and a timestamp."""
    if not content:
        return []
    assert content.endswith(b"\n\n"), content[-200:]
    return [parse_frame(frame) for frame in content[:-2].split(b"\n\n")]


def parse_frame(frame: bytes) -> Event:
    """Read one frame."""
    assert b"\n" not in frame, frame
    event: Event = json.loads(frame)
    assert isinstance(event["type"], str), event
    assert isinstance(event["timestamp"], int), event
    return event


def folded(response: httpx.Response) -> Execution:
    """Check the headers of a finished stream and fold it."""
    assert response.status_code == 200, response.text
    assert "text/event-stream" in response.headers["content-type"]
    assert response.headers["cache-control"] == "no-cache"
    return Execution(parse(response.content))


def run(client: httpx.Client, command: str, **fields: object) -> Execution:
    """Run shell text in the foreground."""
    return folded(client.post("/command", json={"command": command, **fields}))


def run_argv(client: httpx.Client, *argv: str, **fields: object) -> Execution:
    """Run a program in the foreground, without a shell."""
    return folded(client.post("/command", json={"argv": list(argv), **fields}))


def start(client: httpx.Client, command: str, **fields: object) -> str:
    """Start shell text in the background and return its id."""
    execution = run(client, command, background=True, **fields)
    assert execution.error is None
    return execution.id


@contextmanager
def streaming(client: httpx.Client, **body: object) -> Iterator[Iterator[Event]]:
    """Start a foreground command and hand out its events as they come."""
    with client.stream("POST", "/command", json=body) as response:
        assert response.status_code == 200
        yield frames(response)


def frames(response: httpx.Response) -> Iterator[Event]:
    """Yield the events of a stream as they arrive."""
    rest = b""
    for piece in response.iter_raw():
        rest += piece
        *complete, rest = rest.split(b"\n\n")
        yield from (parse_frame(frame) for frame in complete)
    assert rest == b""


def next_of(events: Iterator[Event], kind: str) -> Event:
    """Skip to the next event of a kind."""
    for event in events:
        if event["type"] == kind:
            return event
    raise AssertionError(f"the stream ended without {kind}")


def replay(
    client: httpx.Client, identifier: str, cursor: int = 0, follow: bool = True
) -> Execution:
    """Read a command's output from a cursor; with follow, to its end."""
    query = {"cursor": str(cursor), "follow": "true" if follow else "false"}
    return folded(client.get(f"/command/{identifier}/output", params=query))


def output_bytes(execution: Execution, kind: str = "") -> bytes:
    """Join the exact bytes of a replay, of one kind or of both in the order they came."""
    return b"".join(
        base64.b64decode(event["base64"]) if "base64" in event else event["text"].encode()
        for event in execution.events
        if event["type"] in ("stdout", "stderr") and kind in ("", event["type"])
    )


def status(client: httpx.Client, identifier: str) -> Event:
    """Return the status of a command."""
    response = client.get(f"/command/status/{identifier}")
    assert response.status_code == 200, response.text
    answer: Event = response.json()
    return answer


def assert_error(response: httpx.Response, http_status: int, code: str) -> None:
    """Check status and the one error shape: code and message, nothing else."""
    assert response.status_code == http_status, response.text
    body = response.json()
    assert set(body) == {"code", "message"}, body
    assert body["code"] == code, body
    assert body["message"]
