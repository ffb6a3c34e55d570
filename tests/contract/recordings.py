# SPDX-License-Identifier: Apache-2.0
"""The recorded event streams in `specs/streams`, and how to record them from a running daemon.

Run as a program it records again:

    python -m tests.contract.recordings            # what a daemon can be made to say
    python -m tests.contract.recordings --fold     # only the .json beside each .sse
"""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.contract.execution import Execution, fold, frames
from tests.harness.execd import run_daemon

STREAMS = Path(__file__).resolve().parents[2] / "specs" / "streams"


@dataclass(frozen=True)
class Recording:
    """A run that a daemon tells in the same way each time, apart from ids, times and durations."""

    name: str
    body: dict[str, Any]
    kind: str = "command"
    query: dict[str, str] = field(default_factory=dict)

    def record(self, client: httpx.Client) -> bytes:
        """Do the run and return its stream."""
        if self.kind == "session":
            session = client.post("/session").raise_for_status().json()["session_id"]
            return _stream(client.post(f"/session/{session}/run", json=self.body))
        stream = _stream(client.post("/command", json=self.body))
        if self.kind != "replay":
            return stream
        command = next(frames(stream))["text"]
        return _stream(client.get(f"/command/{command}/output", params=self.query))


RECORDINGS = [
    Recording("echo", {"command": "echo hi"}),
    Recording("argv", {"argv": ["echo", "two words", "*"]}),
    Recording("both-outputs", {"command": "echo out; echo err >&2; echo more; echo worse >&2"}),
    Recording("no-last-newline", {"command": "printf 'one\\ntwo'"}),
    Recording("failing", {"command": "echo before; exit 3"}),
    Recording("killed", {"command": "echo before; kill -KILL $$"}),
    Recording("timeout", {"command": "echo before; sleep 600", "timeout": 300}),
    Recording("cannot-start", {"argv": ["/no/such/program"]}),
    Recording("background", {"command": "echo later", "background": True}, "background"),
    Recording("blank-lines", {"command": r"printf '\na\n\n\nb\r\nc\rd\n\n'"}),
    Recording(
        "unicode", {"command": r"printf 'h\303\251llo \360\237\214\215 \042q\042 \\\\ \t|\n'"}
    ),
    Recording("line-separators", {"command": r"printf 'a\302\205b\342\200\250c\342\200\251d\n'"}),
    Recording("invalid-utf8", {"command": r"printf 'a\377b\n\303\n'"}),
    Recording("ping", {"command": "echo before; sleep 3.5; echo after"}),
    Recording("session", {"command": "echo out; echo; echo err >&2; echo last"}, "session"),
    Recording("session-exit", {"command": "echo before; exit 7"}, "session"),
    Recording("replay", {"command": r"printf 'a\nb'; exit 3"}, "replay"),
    Recording("replay-bytes", {"command": r"printf 'a\377b\n'"}, "replay"),
    Recording(
        "replay-from-cursor", {"command": r"printf 'first\nsecond\n'"}, "replay", {"cursor": "6"}
    ),
]


def comparable(execution: Execution) -> Execution:
    """Leave out what differs from run to run."""
    kept = {**execution, "id": bool(execution["id"]), "complete": bool(execution["complete"])}
    if execution["kind"] == "replay":  # into how many pieces a replay falls is a matter of timing
        del kept["stdout"], kept["stderr"]
    return kept


def _stream(response: httpx.Response) -> bytes:
    response.raise_for_status()
    assert "text/event-stream" in response.headers["content-type"]
    return response.content


def _record_all() -> None:
    with run_daemon("root") as daemon:
        for recording in RECORDINGS:
            (STREAMS / f"{recording.name}.sse").write_bytes(recording.record(daemon.client))


def _fold_all() -> None:
    kinds = {recording.name: recording.kind for recording in RECORDINGS}
    for path in sorted(STREAMS.glob("*.sse")):
        beside = path.with_suffix(".json")
        kind = kinds.get(path.stem) or json.loads(beside.read_text())["kind"]
        folded = json.dumps(fold(path.read_bytes(), kind), indent=2)
        beside.write_text(folded + "\n")


if __name__ == "__main__":
    if "--fold" not in sys.argv:
        _record_all()
    _fold_all()
