# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_reconnect.py by scripts/unasync.py; change it there.
"""Streams that break in the middle: nothing is missed and nothing is repeated."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException, SandboxConnectionException
from opensandbox.models import ExecutionHandlersSync, RunCommandOpts
from opensandbox.transport import RetryPolicy
from sdks.python.tests.cutting import Cutter
from tests.harness.lifecycle import StandIn

# Half a line of stderr among lines of stdout, a line end in two writes, bytes that are not text.
SCRIPT = r"""
printf 'one\n\ntwo\r'; printf 'half' >&2; printf '\nthree\n'; printf ' a line\n' >&2
printf 'caf\303\251 \377\n'; for n in 1 2 3 4 5; do echo line $n; echo error $n >&2; done
printf 'end'; exit 3
"""
IMPATIENT = RetryPolicy(initial_backoff=timedelta(milliseconds=1))


@pytest.fixture
def sandbox(cutter: Cutter) -> Iterator[SandboxSync]:
    """Hold a sandbox behind the proxy."""
    assert cutter.address
    config = ConnectionConfigSync(retry_policy=IMPATIENT)
    with SandboxSync.create("image", connection_config=config) as sandbox:
        yield sandbox


class Heard:
    """What handlers were told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, object]] = []
        self.handlers = ExecutionHandlersSync(
            on_init=self._hear,
            on_stdout=self._hear,
            on_stderr=self._hear,
            on_error=self._hear,
            on_execution_complete=self._hear,
        )

    def _hear(self, event: object) -> None:
        kind = "stderr" if getattr(event, "is_error", False) else type(event).__name__
        self.events.append((kind, getattr(event, "text", None)))

    def of(self, kind: str) -> list[object]:
        return [text for name, text in self.events if name == kind]


def test_a_command_misses_and_repeats_nothing_wherever_its_stream_is_cut(
    sandbox: SandboxSync, cutter: Cutter
) -> None:
    whole = Heard()
    expected = sandbox.commands.run(SCRIPT, handlers=whole.handlers)
    for budget in range(0, 2400, 61):
        heard = Heard()
        cutter.cut_after([budget])
        execution = sandbox.commands.run(SCRIPT, handlers=heard.handlers)
        assert execution.exit_code == 3
        for stream in ("stdout", "stderr"):
            texts = [message.text for message in getattr(execution.logs, stream)]
            assert texts == [message.text for message in getattr(expected.logs, stream)]
        for kind in ("ExecutionInit", "OutputMessage", "stderr", "ExecutionError"):
            assert heard.of(kind) == whole.of(kind), f"cut after {budget} bytes"
    cutter.cut_after([])


def test_a_stream_may_be_cut_again_and_again(sandbox: SandboxSync, cutter: Cutter) -> None:
    script = "for n in $(seq 300); do echo line $n; done"
    cutter.cut_after([700] * 20)
    execution = sandbox.commands.run(script)
    assert execution.text == "\n".join(f"line {n}" for n in range(1, 301))
    assert execution.exit_code == 0
    assert cutter.cuts > 5


def test_a_session_misses_and_repeats_nothing_after_it_began(
    sandbox: SandboxSync, cutter: Cutter
) -> None:
    session = sandbox.commands.create_session()
    script = "for n in 1 2 3 4 5; do echo out $n; echo err $n >&2; done; (exit 4)"
    expected = (sandbox.commands.run_in_session(session, script)).text
    for budget in range(300, 1000, 53):
        cutter.cut_after([budget])
        execution = sandbox.commands.run_in_session(session, script)
        assert (execution.text, execution.exit_code) == (expected, 4)
    cutter.cut_after([])


def test_follow_and_replay_go_on_too(sandbox: SandboxSync, cutter: Cutter) -> None:
    script = "for n in $(seq 200); do echo line $n; done; exit 6"
    started = sandbox.commands.run(script, opts=RunCommandOpts(background=True))
    assert started.id is not None
    expected = "\n".join(f"line {n}" for n in range(1, 201))
    for _ in range(3):
        cutter.cut_after([900] * 4)
        followed = sandbox.commands.follow(started.id)
        assert (followed.text, followed.exit_code) == (expected, 6)
        cutter.cut_after([700])
        replayed = sandbox.commands.replay(started.id, follow=True)
        assert replayed.stdout.decode() == expected + "\n"
        assert replayed.execution.exit_code == 6
    cutter.cut_after([])


def test_a_stream_that_falls_silent_is_taken_up_again(
    sandbox: SandboxSync, cutter: Cutter
) -> None:
    sandbox.connection_config.request_timeout = timedelta(seconds=1)
    cutter.cut_after([400], falls_silent=True)
    execution = sandbox.commands.run("for n in $(seq 50); do echo line $n; done")
    assert execution.text == "\n".join(f"line {n}" for n in range(1, 51))
    assert cutter.cuts == 1


def test_when_every_try_fails_the_exception_says_how_to_go_on(
    sandbox: SandboxSync, cutter: Cutter
) -> None:
    cutter.cut_after([400] + [0] * 50)
    with pytest.raises(
        SandboxConnectionException, match=r"commands.follow\('[0-9a-f]{32}', cursor"
    ) as e:
        sandbox.commands.run("for n in $(seq 50); do echo line $n; done; sleep 600")
    assert e.value.is_retryable
    cutter.cut_after([])
    execution_id = str(e.value).split("'")[1]
    sandbox.commands.interrupt(execution_id)
    followed = sandbox.commands.follow(execution_id)
    assert followed.logs.stdout[-1].text == "line 50"


def test_without_retries_a_broken_stream_is_an_exception_at_once(
    standin: StandIn, cutter: Cutter
) -> None:
    config = ConnectionConfigSync(retry_policy=RetryPolicy.disabled())
    with SandboxSync.create("image", connection_config=config) as sandbox:
        cutter.cut_after([400])
        with pytest.raises(SandboxConnectionException, match="lost the stream"):
            sandbox.commands.run("for n in $(seq 50); do echo line $n; done")
    assert standin.sandboxes


def test_following_an_unknown_command_is_an_error_with_its_status(sandbox: SandboxSync) -> None:
    with pytest.raises(SandboxApiException) as e:
        sandbox.commands.follow("0" * 32)
    assert e.value.status_code == 404
