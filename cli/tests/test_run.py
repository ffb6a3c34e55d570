# SPDX-License-Identifier: Apache-2.0
"""``osb run`` and ``osb exec``: a command in a sandbox, as if it ran here."""

import os
import signal
import subprocess
from contextlib import ExitStack

import pytest

from cli.tests.program import WAIT_SECONDS, Osb
from cli.tests.screen import Screen, started

pytestmark = pytest.mark.slow

AT_ONCE_SECONDS = 300.0  # bounds a crowd that shares one slow processor


def test_outputs_stay_apart_and_the_exit_code_passes_through(real_osb: Osb) -> None:
    done = real_osb.run("run", "-i", "host", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 7)
    assert real_osb.sandboxes() == []


def test_bytes_pass_through_in_and_out(real_osb: Osb) -> None:
    content = os.urandom(1 << 20)
    done = real_osb.run("run", "-i", "host", "--", "cat", stdin=content)
    assert (done.stdout == content, done.stderr, done.returncode) == (True, b"", 0)


def test_many_at_once_all_succeed_and_leave_nothing(real_osb: Osb) -> None:
    count = 12
    with ExitStack() as stack:
        words = [("run", "-i", "host", "--", "echo", f"number {one}") for one in range(count)]
        running = [stack.enter_context(started(real_osb, *each)) for each in words]
        done = [process.communicate(timeout=AT_ONCE_SECONDS) for process in running]
    assert done == [(b"number %d\n" % one, b"") for one in range(count)]
    assert real_osb.sandboxes() == []


def test_a_single_word_is_shell_text_and_several_are_a_program(real_osb: Osb) -> None:
    with real_osb.sandbox() as made:
        assert real_osb.print_("exec", made, "--", "echo a | tr a b") == "b\n"
        assert real_osb.print_("exec", made, "--", "echo", "$HOME  |") == "$HOME  |\n"
        assert (
            real_osb.print_("exec", made, "-w", "/tmp", "-e", "A=1", "--", "echo $PWD $A")
            == "/tmp 1\n"
        )
        assert real_osb.print_("exec", made, "ls", "-d", "/tmp") == "/tmp\n"


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["--", "/no/such", "program"], 127, b"osb: /no/such: no such file\n"),
        (["--", "sh", "-c", "kill -9 $$"], 137, b"osb: signal: killed\n"),
        (["--limit", "0.2", "--", "sleep", "60"], 137, b"osb: timed out after 200ms: killed\n"),
    ],
)
def test_a_command_without_a_code_of_its_own_says_why(
    real_osb: Osb, words: list[str], code: int, line: bytes
) -> None:
    with real_osb.sandbox() as made:
        done = real_osb.run("exec", made, *words)
    assert (done.returncode, done.stderr) == (code, line)


def test_a_failure_of_osb_itself_has_its_own_code(lonely_osb: Osb) -> None:
    assert lonely_osb.run("run", "--", "true").returncode == 125


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_sandbox_and_then_osb(real_osb: Osb, number: signal.Signals) -> None:
    with started(real_osb, "run", "-i", "host", "--", "echo begun; sleep 1000") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        assert len(real_osb.sandboxes()) == 1
        process.send_signal(number)
        assert process.wait(WAIT_SECONDS) == 128 + number
    assert real_osb.sandboxes() == []


def test_ctrl_c_on_a_terminal_ends_the_sandbox(real_osb: Osb) -> None:
    with Screen(real_osb, "run", "-i", "host", "--", "echo begun; sleep 1000") as screen:
        screen.wait_for("begun")
        screen.press("\x03")
        assert screen.wait() == 130
    assert real_osb.sandboxes() == []


def test_a_signal_while_the_sandbox_is_made_leaves_none(real_osb: Osb) -> None:
    with started(real_osb, "-v", "run", "-i", "host", "--", "sleep", "1000") as process:
        assert process.stderr is not None
        assert b"asyncio" not in process.stderr.readline()  # the first request is on its way
        process.send_signal(signal.SIGINT)
        process.wait(WAIT_SECONDS)
    assert real_osb.sandboxes() == []


def test_a_reader_that_goes_away_ends_the_sandbox(real_osb: Osb) -> None:
    with started(real_osb, "run", "-i", "host", "--", "yes") as process:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert process.wait(WAIT_SECONDS) == 141
        process.stdout = None
    assert real_osb.sandboxes() == []


def test_a_kept_sandbox_is_named(real_osb: Osb) -> None:
    done = real_osb.run("run", "-i", "host", "--keep", "--", "true")
    (kept,) = real_osb.sandboxes()
    assert f"osb sandbox kill {kept}" in done.stderr.decode()
    real_osb.print_("sandbox", "kill", kept)


def test_control_sequences_are_dropped_on_a_terminal_and_kept_in_a_pipe(osb: Osb) -> None:
    words = ("--", "printf", r"\033]0;owned\007\033[31mred\033[0m\n")
    with osb.sandbox() as made:
        assert osb.run("exec", made, *words).stdout == b"\x1b]0;owned\x07\x1b[31mred\x1b[0m\n"
        with Screen(osb, "exec", made, *words) as screen:
            assert screen.wait() == 0
        assert screen.text == "red\r\n"
        with Screen(osb, "command", "run", made, *words) as screen:
            assert screen.wait() == 0
        assert screen.text == "red\r\n"


def test_the_contracts_run_joins_its_words_and_exits_with_1(osb: Osb) -> None:
    with osb.sandbox() as made:
        assert osb.print_("command", "run", made, "--", "echo", "a  b", "$HOME") == "a  b $HOME\n"
        assert osb.print_("command", "run", made, "--argv", "--", "echo", "a b") == "a b\n"
        failed = osb.run("command", "run", made, "--", "sh", "-c", "exit 3")
        assert (failed.returncode, failed.stderr) == (1, b"osb: exit status 3\n")
        late = osb.run("command", "run", made, "-t", "0.2", "--", "sleep", "60")
        assert late.returncode == 1


def test_background_commands_are_followed_and_interrupted(osb: Osb) -> None:
    with osb.sandbox() as made:
        slow = osb.print_(
            "command", "run", made, "-d", "--", "sh", "-c", "echo hi; sleep 1000"
        ).strip()
        assert "running     yes" in osb.print_("command", "status", made, slow)
        with started(osb, "logs", "-f", made, slow) as following:
            assert following.stdout is not None
            assert following.stdout.readline() == b"hi\n"
            assert osb.print_("command", "interrupt", made, slow) == f"interrupted {slow}\n"
            assert following.wait(WAIT_SECONDS) == 0
        logs = osb.run("command", "logs", made, slow, "--cursor", "1")
        assert (logs.stdout, logs.stderr) == (b"i\n", b"cursor: 3\n")


def test_a_session_keeps_its_directory(osb: Osb) -> None:
    with osb.sandbox() as made:
        session = osb.print_("command", "session", "create", made, "-w", "/tmp").strip()
        run = ("command", "session", "run", made, session, "--")
        assert osb.print_(*run, "export A=1; cd /") == ""
        assert osb.print_(*run, 'echo "$PWD $A"') == "/ 1\n"
        assert osb.run(*run, "exit 3").returncode == 1
        assert osb.print_("command", "session", "delete", made, session) == f"deleted {session}\n"
        assert b"no session has the id" in osb.run(*run, "true").stderr


def test_the_entrypoint_is_followed_until_the_sandbox_ends(osb: Osb) -> None:
    program = ["sh", "-c", "echo first; sleep 2; echo second; exec sleep 1000"]
    with osb.sandbox(entrypoint=program) as made, started(osb, "logs", "-f", made) as following:
        lines = iter(following.stdout or [])
        assert any(b"first" in line for line in lines)
        assert any(b"second" in line for line in lines)
        osb.print_("sandbox", "kill", made)
        assert following.wait(WAIT_SECONDS) == 0


def test_output_is_not_repeated_between_two_looks() -> None:
    from opensandbox_cli.commands.logs import unseen

    assert unseen("", "a\n") == "a\n"
    assert unseen("a\nb\n", "a\nb\nc\n") == "c\n"
    assert unseen("a\nb\nc\n", "b\nc\nd\n") == "d\n"
    assert unseen("a\nb\n", "x\ny\n") == "x\ny\n"
    assert unseen("a\n", "a\n") == ""


def test_a_local_server_starts_in_place_of_osb(lonely_osb: Osb) -> None:
    done = lonely_osb.run("server", "--version")
    assert done.returncode == 0
    assert (
        done.stdout.strip()
        == subprocess.check_output(
            [str(lonely_osb.command[0]).replace("osb", "opensandbox-server"), "--version"]
        ).strip()
    )
