# SPDX-License-Identifier: Apache-2.0
"""What a replay tells its handlers has the bytes as they were written."""

from opensandbox._events import ReplayFold
from opensandbox.models import OutputMessage

TEXT = {"type": "stdout", "text": "one\n", "cursor": 4, "timestamp": 1}
BYTES = {"type": "stderr", "base64": "Yf9i", "cursor": 7, "timestamp": 2}


def test_messages_of_a_replay_have_the_exact_bytes() -> None:
    fold = ReplayFold()
    messages = [fold.add(TEXT), fold.add(BYTES)]
    assert messages == [
        OutputMessage(text="one\n", timestamp=1, raw=b"one\n"),
        OutputMessage(text="a�b", timestamp=2, is_error=True, raw=b"a\xffb"),
    ]
    replay = fold.finish_replay()
    assert (replay.stdout, replay.stderr, replay.cursor) == (b"one\n", b"a\xffb", 7)


def test_a_replay_that_keeps_nothing_still_tells_everything() -> None:
    fold = ReplayFold(keeps_output=False)
    assert isinstance(message := fold.add(TEXT), OutputMessage)
    assert message.raw == b"one\n"
    replay = fold.finish_replay()
    assert (replay.stdout, replay.execution.logs.stdout, replay.cursor) == (b"", [], 4)
