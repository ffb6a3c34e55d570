# SPDX-License-Identifier: Apache-2.0
"""The output route: byte-exact replay from a cursor, then following."""

import pytest

from tests.execd.events import (
    assert_error,
    folded,
    frames,
    next_of,
    output_bytes,
    replay,
    run,
    start,
    status,
    streaming,
)
from tests.harness.execd import Daemon


def test_a_replay_is_byte_exact_also_when_the_bytes_are_not_text(daemon: Daemon) -> None:
    script = r"printf 'a\r\n\377\376\000b\n\ntail'"
    identifier = run(daemon.client, script).id
    assert output_bytes(replay(daemon.client, identifier)) == b"a\r\n\xff\xfe\x00b\n\ntail"


def test_a_replay_keeps_stdout_and_stderr_apart(daemon: Daemon) -> None:
    identifier = run(daemon.client, "echo out; echo err >&2").id
    execution = replay(daemon.client, identifier)
    assert output_bytes(execution, "stdout") == b"out\n"
    assert output_bytes(execution, "stderr") == b"err\n"


def test_a_replay_ends_as_the_command_did(daemon: Daemon) -> None:
    assert replay(daemon.client, run(daemon.client, "exit 4").id).exit_code == 4
    assert replay(daemon.client, run(daemon.client, "true").id).exit_code == 0


@pytest.mark.parametrize("cursor", [0, 1, 3, 6, 11])
def test_a_replay_begins_exactly_at_its_cursor(daemon: Daemon, cursor: int) -> None:
    identifier = run(daemon.client, "echo hello; echo wörld").id
    whole = b"hello\nw\xc3\xb6rld\n"
    assert output_bytes(replay(daemon.client, identifier, cursor)) == whole[cursor:]


def test_a_cursor_beyond_the_end_gives_only_the_end(daemon: Daemon) -> None:
    execution = replay(daemon.client, run(daemon.client, "echo x").id, cursor=1000)
    assert output_bytes(execution) == b""
    assert execution.exit_code == 0


def test_a_client_that_lost_its_stream_goes_on_from_the_last_cursor(daemon: Daemon) -> None:
    script = "echo one; echo two; read line; echo $line; exit 5"
    with streaming(daemon.client, command=script, stdin=True) as events:
        identifier = next_of(events, "init")["text"]
        cursor = next_of(events, "stdout")["cursor"]
    assert cursor == len("one\n")
    path = f"/command/{identifier}/output"
    query = {"cursor": str(cursor), "follow": "true"}
    with daemon.client.stream("GET", path, params=query) as response:
        events = frames(response)
        assert next_of(events, "stdout")["text"] == "two\n"
        stdin = f"/command/{identifier}/stdin"
        daemon.client.post(stdin, content=b"three\n").raise_for_status()
        assert next_of(events, "stdout")["text"] == "three\n"
        assert next_of(events, "error")["error"]["evalue"] == "5"


def test_without_follow_a_running_command_is_shown_as_far_as_it_is(daemon: Daemon) -> None:
    with streaming(daemon.client, command="echo one; read line", stdin=True) as events:
        identifier = next_of(events, "init")["text"]
        next_of(events, "stdout")
        so_far = daemon.client.get(f"/command/{identifier}/output", params={"follow": "false"})
        assert b'"one\\n"' in so_far.content
        assert b"execution_complete" not in so_far.content
        assert status(daemon.client, identifier)["running"] is True


def test_several_followers_see_the_same_bytes(daemon: Daemon) -> None:
    identifier = start(
        daemon.client, "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done"
    )
    whole = b"".join(b"line %d\n" % i for i in range(2000))
    assert output_bytes(replay(daemon.client, identifier)) == whole
    assert output_bytes(replay(daemon.client, identifier)) == whole


def test_what_the_journal_no_longer_has_is_told_as_a_gap(daemon: Daemon) -> None:
    size = 40 << 20  # more than a journal keeps
    identifier = run(daemon.client, f"head -c {size} /dev/zero | tr '\\0' x").id
    execution = replay(daemon.client, identifier)
    gap = next(event for event in execution.events if event["type"] == "gap")
    kept = output_bytes(execution)
    assert 0 < gap["cursor"] < size
    assert gap["cursor"] + len(kept) == size
    assert set(kept) == {ord("x")}


def test_output_of_an_unknown_command_is_not_found(daemon: Daemon) -> None:
    answer = daemon.client.get(f"/command/{'0' * 32}/output")
    assert_error(answer, 404, "INVALID_REQUEST_BODY")


def test_follow_is_true_or_false(daemon: Daemon) -> None:
    identifier = run(daemon.client, "true").id
    answer = daemon.client.get(f"/command/{identifier}/output", params={"follow": "maybe"})
    assert_error(answer, 400, "INVALID_REQUEST_BODY")


@pytest.mark.parametrize("seen", range(8))
def test_lines_go_on_after_the_last_of_each_output(daemon: Daemon, seen: int) -> None:
    # Half a line of stderr is written before lines of stdout; "\\r\\n" is one end, in two writes.
    script = (
        r"printf 'a\n\nb\r'; printf 'half' >&2; printf '\nc\n'; printf ' line\n' >&2; printf 'end'"
    )
    first = run(daemon.client, script)
    output = [event for event in first.events if event["type"] in ("stdout", "stderr")]
    cursors = {"stdout": 0, "stderr": 0}
    for event in output[:seen]:
        cursors[event["type"]] = event["cursor"]
    query = {"lines": "true", **{name: str(cursor) for name, cursor in cursors.items()}}
    rest = folded(daemon.client.get(f"/command/{first.id}/output", params=query))
    for kind in ("stdout", "stderr"):
        unseen = [event for event in output[seen:] if event["type"] == kind]
        assert [event for event in rest.events if event["type"] == kind] == unseen
    assert rest.terminal == first.terminal


def test_lines_are_followed_to_the_end(daemon: Daemon) -> None:
    identifier = run(daemon.client, "true").id
    path = f"/command/{identifier}/output"
    for query in ({"lines": "true", "follow": "false"}, {"lines": "true", "stdout": "-1"}):
        assert_error(daemon.client.get(path, params=query), 400, "INVALID_REQUEST_BODY")
