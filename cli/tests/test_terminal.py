# SPDX-License-Identifier: Apache-2.0
"""On a real terminal: shells, live tables, colours, and what takes long."""

import dataclasses
import os
import signal
import socket
import threading

import pytest

from cli.tests.program import Osb
from cli.tests.screen import Screen

pytestmark = pytest.mark.slow


def test_a_shell_is_a_real_terminal_that_follows_the_window(real_osb: Osb) -> None:
    with real_osb.sandbox() as made, Screen(real_osb, "shell", made, rows=30, columns=90) as screen:
        before = screen.attributes()
        screen.press("test -t 0 && stty size\n")
        screen.wait_for("30 90\r")
        screen.resize(41, 123)
        # The shell learns of it when the signal has travelled: ask until it has.
        screen.press("until [ \"$(stty size)\" = '41 123' ]; do sleep 0.1; done; echo re''sized\n")
        at = screen.wait_for("resized")
        # Only what the program itself says shows that the terminal is its own by now.
        screen.press("sh -c 'echo aw\"\"ake; exec sleep 1000'\n")
        at = screen.wait_for("awake", after=at)
        screen.press("\x03")
        screen.press("echo $((6 * 7))\n")
        screen.wait_for("42", after=at)
        screen.press("exit 5\n")
        assert screen.wait() == 5
        assert screen.attributes() == before
        assert made in real_osb.sandboxes()


def test_a_shell_without_an_id_has_a_sandbox_for_itself(real_osb: Osb) -> None:
    with Screen(real_osb, "shell", "-i", "host", "-w", "/tmp") as screen:
        screen.press("echo at $PWD\n")
        screen.wait_for("at /tmp")
        assert len(real_osb.sandboxes()) == 1
        screen.press("exit\n")
        assert screen.wait() == 0
    assert real_osb.sandboxes() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_shell_that_is_ended_gives_the_terminal_back(
    real_osb: Osb, number: signal.Signals
) -> None:
    with Screen(real_osb, "shell", "-i", "host") as screen:
        before = screen.attributes()
        screen.press("echo re''ady\n")
        screen.wait_for("ready")
        assert screen.attributes() != before
        os.kill(screen.process.pid, number)
        assert screen.wait() == 128 + number
        assert screen.attributes() == before
    assert real_osb.sandboxes() == []


def test_a_sandbox_that_ends_under_a_shell_gives_the_terminal_back(real_osb: Osb) -> None:
    with real_osb.sandbox() as made, Screen(real_osb, "shell", made) as screen:
        before = screen.attributes()
        screen.press("echo re''ady\n")
        screen.wait_for("ready")
        real_osb.print_("sandbox", "kill", made)
        assert screen.wait() == 125
        assert screen.attributes() == before
        assert f"osb sandbox get {made}" in screen.text


def test_a_command_gets_a_terminal_when_it_asks_for_one(real_osb: Osb) -> None:
    words = ("run", "-i", "host", "--tty", "--", "sh", "-c", "tty; printf '\\033[1mbold'; exit 3")
    with Screen(real_osb, *words) as screen:
        assert screen.wait() == 3
    assert "/dev/pts/" in screen.text
    assert "\x1b[1mbold" in screen.text  # a terminal session passes everything on


def test_a_piped_script_runs_in_a_shell(real_osb: Osb) -> None:
    with real_osb.sandbox() as made:
        done = real_osb.run("shell", made, stdin=b"echo $((40 + 2)); exit 4\n")
    assert (done.returncode, b"42" in done.stdout) == (4, True)


def test_top_is_drawn_again_until_ctrl_c(osb: Osb) -> None:
    with osb.sandbox() as made, Screen(osb, "top", "--interval", "0.2") as screen:
        at = screen.wait_for(made)
        with osb.sandbox() as second:
            at = screen.wait_for(second, after=at)
        for _ in range(8):  # longer than any question may take before it is named
            at = screen.wait_for("Ctrl-C ends this", after=at)
        screen.press("\x03")
        assert screen.wait() == 130
        assert "asking" not in screen.text[screen.text.index("\x1b[?1049h") :]
        assert screen.text.rstrip().endswith("\x1b[?25h\x1b[?1049l")
        printed = osb.print_("top")
    assert printed.startswith("ID ")
    assert made in printed
    assert "\x1b" not in printed


def test_colours_are_for_terminals_that_want_them(osb: Osb) -> None:
    assert b"\x1b" not in osb.run("sandbox", "list").stdout
    with Screen(osb, "sandbox", "list") as screen:
        screen.wait()
    assert screen.text.startswith("\x1b[1mID")
    plain = dataclasses.replace(osb, variables={"NO_COLOR": "1"})
    for screen in (Screen(osb, "--no-color", "sandbox", "list"), Screen(plain, "sandbox", "list")):
        with screen:
            screen.wait()
        assert screen.text.startswith("ID ")


def test_what_takes_long_says_what_it_is_doing_on_a_terminal_only(lonely_osb: Osb) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        domain = f"127.0.0.1:{silent.getsockname()[1]}"
        words = ("--domain", domain, "--request-timeout", "30", "sandbox", "get", "x")
        with Screen(lonely_osb, *words) as screen:
            screen.wait_for("asking the server (")
            screen.press("\x03")
            assert screen.wait() == 130
        ended = threading.Timer(2.0, silent.close)
        ended.start()
        piped = lonely_osb.run("--domain", domain, "--request-timeout", "3", "sandbox", "get", "x")
        ended.join()
    assert b"asking" not in piped.stderr
