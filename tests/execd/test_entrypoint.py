# SPDX-License-Identifier: Apache-2.0
"""The daemon as supervisor: entrypoint, signals, zombies, an orderly end."""

import contextlib
import os
import pty
import select
import signal
import subprocess
from pathlib import Path

import pytest

from tests.execd.events import run, start
from tests.harness.execd import BINARY, Daemon, client_of, is_listening, outcome, running
from tests.harness.wait import eventually


def flags(home: Path) -> list[str]:
    return [f"--listen=unix://{home / 's'}", "--"]


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_daemon_exits_with_the_status_of_its_entrypoint(tmp_path: Path, code: int) -> None:
    ended = outcome(tmp_path, *flags(tmp_path), "sh", "-c", f"echo out; exit {code}")
    assert ended.returncode == code
    assert ended.stdout == b"out\n"


def test_an_entrypoint_killed_by_a_signal_counts_as_in_a_shell(tmp_path: Path) -> None:
    ended = outcome(tmp_path, *flags(tmp_path), "sh", "-c", "kill -KILL $$")
    assert ended.returncode == 128 + signal.SIGKILL


def test_an_entrypoint_that_does_not_exist_stops_the_start(tmp_path: Path) -> None:
    ended = outcome(tmp_path, *flags(tmp_path), "/no/such/program")
    assert ended.returncode > 0
    assert b"/no/such/program" in ended.stderr


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH"])
def test_a_signal_is_forwarded_to_the_entrypoint(tmp_path: Path, name: str) -> None:
    script = f"trap 'echo got {name}; exit 33' {name}; echo armed; while :; do sleep 0.01; done"
    with running(tmp_path, *flags(tmp_path), "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"armed\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.wait(20) == 33
        assert process.stdout.read() == f"got {name}\n".encode()


def test_the_daemon_serves_while_the_entrypoint_runs_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    script = f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; exit 6"
    with running(tmp_path, *flags(tmp_path), "sh", "-c", script) as process:
        eventually(lambda: is_listening(path))
        with client_of(path) as client:
            assert run(client, "echo served").stdout == ["served"]
            lingering = start(client, "exec sleep 1000")
            assert lingering
        (tmp_path / "go").touch()
        assert process.wait(20) == 6


def test_sigterm_ends_a_daemon_without_entrypoint_and_what_it_started(tmp_path: Path) -> None:
    path, pid_file = tmp_path / "s", tmp_path / "pid"
    with running(tmp_path, f"--listen=unix://{path}") as process:
        eventually(lambda: is_listening(path))
        with client_of(path) as client:
            start(client, f"echo $$ > {pid_file}; exec sleep 1000")
            eventually(lambda: pid_file.exists() and pid_file.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    pid = pid_file.read_text().strip()
    eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_what_a_killed_daemon_left_in_its_state_directory_is_removed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for name in ("old.journal", "old.text", "old.sh", "env"):
        (state / name).write_text("left")
    with running(tmp_path, f"--listen=unix://{tmp_path / 's'}"):
        eventually(lambda: is_listening(tmp_path / "s"))
        with client_of(tmp_path / "s") as client:
            assert run(client, "echo fine").stdout == ["fine"]
        assert not list(state.glob("old.*"))
        assert (state / "env").read_text() == "left"  # not ours alone


def test_a_log_that_nobody_reads_any_more_does_not_end_the_daemon(tmp_path: Path) -> None:
    path = tmp_path / "s"
    command = [str(BINARY), f"--state-dir={tmp_path / 'state'}", f"--listen=unix://{path}"]
    with subprocess.Popen([*command, "--log-level=7"], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        eventually(lambda: is_listening(path))
        process.stderr.close()
        with client_of(path) as client:
            for _ in range(20):  # each writes to the log
                assert run(client, "echo fine").stdout == ["fine"]
            process.send_signal(signal.SIGPIPE)
            assert run(client, "trap - PIPE; kill -PIPE $$").error is not None  # not inherited
        process.terminate()
        assert process.wait(20) == 0


def test_an_entrypoint_may_read_from_the_terminal_it_was_started_on(tmp_path: Path) -> None:
    command = ["setsid", "--ctty", "--wait", str(BINARY), f"--state-dir={tmp_path / 'state'}"]
    command += ["--log-level=0", *flags(tmp_path), "sh", "-c", 'read x; echo "got $x"; exit 5']
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs) as process:
        os.close(theirs)
        os.write(ours, b"a word\n")
        seen = b""
        with contextlib.suppress(OSError):  # so says a terminal that nobody has open any more
            while select.select([ours], [], [], 20)[0] and (part := os.read(ours, 1024)):
                seen += part
        os.close(ours)  # hangs up whoever still reads
        assert process.wait(20) == 5
    assert b"got a word" in seen


def test_orphans_are_adopted_and_reaped(daemon: Daemon) -> None:
    """Each command leaves a grandchild whose parent is gone, which ends a moment later."""
    for _ in range(20):
        run(daemon.client, "(sh -c 'sleep 0.02' &) ; true")
    eventually(lambda: not children_of(daemon.pid))


def children_of(pid: int) -> list[int]:
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace needs root")
def test_as_pid_1_zombies_are_reaped_and_the_status_is_the_entrypoints(tmp_path: Path) -> None:
    script = """
        [ $PPID = 1 ] || exit 90
        for i in 1 2 3 4 5; do (sh -c 'exit 0' &); done
        for i in $(seq 500); do
            grep -q '^State:.Z' /proc/[0-9]*/status 2>/dev/null || { echo none left; exit 12; }
            sleep 0.02
        done
        exit 91
    """
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", str(BINARY)]
    command += [f"--state-dir={tmp_path / 'state'}", *flags(tmp_path), "sh", "-c", script]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if ended.stderr.startswith(b"unshare:"):
        pytest.skip(ended.stderr.decode().strip())
    assert ended.stdout == b"none left\n"
    assert ended.returncode == 12
