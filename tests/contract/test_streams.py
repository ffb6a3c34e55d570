# SPDX-License-Identifier: Apache-2.0
"""The recorded streams fold to what stands beside them, and the daemon still tells them so."""

import json
from pathlib import Path

import jsonschema
import pytest

from tests.contract.execution import fold, frames
from tests.contract.recordings import RECORDINGS, STREAMS, Recording, comparable
from tests.contract.specification import validator
from tests.harness.execd import Daemon

RECORDED = sorted(STREAMS.glob("*.sse"))
MAX_LINE = 4 << 20  # the shortest line buffer among the published clients


def schema_of(recording: Recording) -> str:
    """Return where the schema of a recording's frames is."""
    name = "ReplayEvent" if recording.kind == "replay" else "Event"
    return f"#/components/schemas/{name}"


def test_every_stream_has_its_folded_result_and_every_result_its_stream() -> None:
    assert RECORDED
    folded = sorted(STREAMS.glob("*.json"))
    assert [path.stem for path in RECORDED] == [path.stem for path in folded]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_stream_folds_to_the_result_beside_it(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    assert fold(path.read_bytes(), expected["kind"]) == expected


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_the_daemon_tells_a_run_as_it_was_recorded(recording: Recording, daemon: Daemon) -> None:
    stream = recording.record(daemon.client)
    recorded = json.loads((STREAMS / f"{recording.name}.json").read_text())
    assert comparable(fold(stream, recording.kind)) == comparable(recorded)
    for frame in stream.removesuffix(b"\n\n").split(b"\n\n"):
        validator(schema_of(recording)).validate(json.loads(frame))


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_recorded_frames_are_events_of_the_specification(recording: Recording) -> None:
    for frame in frames((STREAMS / f"{recording.name}.sse").read_bytes()):
        validator(schema_of(recording)).validate(frame)


def test_the_event_schema_refuses_what_clients_drop() -> None:
    without_timestamp = {"type": "stdout", "text": "hi"}
    with pytest.raises(jsonschema.ValidationError):
        validator("#/components/schemas/Event").validate(without_timestamp)


def test_a_line_too_long_for_clients_comes_in_as_few_events_as_possible(daemon: Daemon) -> None:
    length = 2 * MAX_LINE + 1
    command = f"head -c {length} /dev/zero | tr '\\0' x; echo; echo next"
    stream = daemon.client.post("/command", json={"command": command}).content
    assert max(map(len, stream.split(b"\n"))) < MAX_LINE
    *pieces, following = fold(stream, "command")["stdout"]
    assert following == "next"
    assert len(pieces) == 3
    assert "".join(pieces) == "x" * length
