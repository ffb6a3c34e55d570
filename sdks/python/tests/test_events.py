# SPDX-License-Identifier: Apache-2.0
"""The recorded streams fold to what stands beside them, however the bytes arrive."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from opensandbox._events import MAX_LINE, EventReader, Fold, Kind, ReplayFold
from opensandbox.exceptions import SandboxInternalException
from opensandbox.models.execd import CommandReplay, Execution, ExecutionResult

STREAMS = Path(__file__).parents[3] / "specs" / "streams"
RECORDED = sorted(STREAMS.glob("*.sse"))


def fold(stream: bytes, kind: Kind, step: int) -> tuple[Execution, CommandReplay | None]:
    """Fold a stream that arrives in pieces of ``step`` bytes."""
    reader = EventReader()
    folding = ReplayFold() if kind is Kind.REPLAY else Fold(kind)
    for start in range(0, len(stream), step):
        for event in reader.feed(stream[start : start + step]):
            if not folding.is_over:
                folding.add(event)
    for event in reader.finish():
        folding.add(event)
    if isinstance(folding, ReplayFold):
        replay = folding.finish_replay()
        return replay.execution, replay
    return folding.finish(), None


def result_as_recorded(result: ExecutionResult) -> dict[str, Any]:
    """Return a result as it stands in the recordings."""
    text = {} if result.text is None else {"text": result.text}
    return {**text, **result.extra_properties}


def as_recorded(execution: Execution, replay: CommandReplay | None, kind: str) -> dict[str, Any]:
    """Return what the JSON beside a stream says, in our words."""
    error, complete = execution.error, execution.complete
    recorded: dict[str, Any] = {
        "kind": kind,
        "id": execution.id,
        "execution_count": execution.execution_count,
        "stdout": [message.text for message in execution.logs.stdout],
        "stderr": [message.text for message in execution.logs.stderr],
        "result": [result_as_recorded(result) for result in execution.result],
        "error": error and {"name": error.name, "value": error.value, "traceback": error.traceback},
        "complete": complete and {"execution_time": complete.execution_time_in_millis},
        "exit_code": execution.exit_code,
        "text": execution.text,
    }
    if replay is not None:
        outputs = {"stdout": replay.stdout, "stderr": replay.stderr}
        recorded["replay"] = {
            "cursor": replay.cursor,
            "gaps": [list(gap) for gap in replay.gaps],
            "base64": {name: base64.b64encode(data).decode() for name, data in outputs.items()},
        }
    return recorded


def expected_of(path: Path) -> dict[str, Any]:
    """Return the JSON beside a stream; our results hold text, so other values are JSON text."""
    expected: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    expected["result"] = [
        {
            media: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for media, value in result.items()
        }
        for result in expected["result"]
    ]
    return expected


def test_there_are_recordings() -> None:
    assert len(RECORDED) > 30


@pytest.mark.parametrize("step", [1 << 30, 4093, 7], ids=["at once", "in pieces", "in crumbs"])
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_stream_folds_to_what_stands_beside_it(path: Path, step: int) -> None:
    expected = expected_of(path)
    stream = path.read_bytes()
    if len(stream) // step > 100_000:
        step *= 1000  # crumbs of a long line take long and show nothing new
    execution, replay = fold(stream, Kind(expected["kind"]), step)
    assert as_recorded(execution, replay, expected["kind"]) == expected


def test_a_line_without_end_is_refused() -> None:
    reader = EventReader()
    assert list(reader.feed(b"x" * MAX_LINE)) == []
    with pytest.raises(SandboxInternalException):
        list(reader.feed(b"x"))


def test_a_background_command_is_over_when_it_has_started() -> None:
    folding = Fold(Kind.BACKGROUND)
    folding.add({"type": "init", "text": "a", "timestamp": 1})
    assert not folding.is_over
    folding.add({"type": "execution_complete", "execution_time": 1, "timestamp": 1})
    assert folding.is_over
    assert folding.finish().exit_code is None


@pytest.mark.parametrize(
    "event",
    [
        {"type": "stdout"},
        {"type": "stdout", "text": 1},
        {"type": "init", "text": None},
        {"type": "error", "error": "oops"},
        {"type": "error", "error": {"ename": "E", "evalue": "1", "traceback": "oops"}},
        {"type": "execution_complete", "execution_time": "long"},
        {"type": "result", "results": []},
        {"type": ["stdout"], "text": "a"},
        {"type": "gap", "cursor": "far"},
        {},
    ],
)
def test_an_event_of_the_wrong_shape_is_passed_over(event: dict[str, Any]) -> None:
    for folding in (Fold(Kind.COMMAND), Fold(Kind.CODE), ReplayFold()):
        assert folding.add({"timestamp": 1, **event}) is None
        assert folding.finish() == Execution()


def test_a_replay_that_is_not_base64_is_told() -> None:
    with pytest.raises(SandboxInternalException):
        ReplayFold().add({"type": "stdout", "base64": "a", "cursor": 1, "timestamp": 1})


@pytest.mark.parametrize("line", [b"{" * 100_000, b'{"a":' + b"[" * 100_000, b'{"a":"\xff"}'])
def test_a_line_that_is_no_json_is_passed_over(line: bytes) -> None:
    assert list(EventReader().feed(line + b"\n")) == []


def test_an_execution_reads_well() -> None:
    folding = Fold(Kind.COMMAND)
    for event in (
        {"type": "stdout", "text": "out", "timestamp": 1},
        {"type": "stderr", "text": "err", "timestamp": 1},
        {"type": "error", "error": {"ename": "E", "evalue": "1"}, "timestamp": 1},
    ):
        folding.add(event)
    assert str(folding.finish()) == "out\n[stderr]\nerr\n[error] E: 1"
