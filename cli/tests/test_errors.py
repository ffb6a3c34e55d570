# SPDX-License-Identifier: Apache-2.0
"""What goes wrong is one line that names the next command, and an exit code of its own."""

import dataclasses
import re
import socket

import pytest

from cli.tests.program import Done, Osb

pytestmark = pytest.mark.slow


def line_of(done: Done) -> str:
    """Return the one line that there must be."""
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, done
    return lines[0]


def test_no_server_there(lonely_osb: Osb) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers here
        taken.bind(("127.0.0.1", 0))
        domain = f"127.0.0.1:{taken.getsockname()[1]}"
        done = lonely_osb.run("--domain", domain, "sandbox", "list")
    assert done.returncode == 3
    assert line_of(done) == (
        f"osb: no server at {domain}; start one with: osb server, or name another with --domain"
    )


def test_a_server_that_never_answers(lonely_osb: Osb) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        domain = f"127.0.0.1:{silent.getsockname()[1]}"
        done = lonely_osb.run("--domain", domain, "--request-timeout", "0.3", "sandbox", "get", "x")
    assert done.returncode == 3
    assert f"no answer from {domain}; wait longer with --request-timeout" in line_of(done)


def test_a_wrong_key(osb: Osb) -> None:
    done = dataclasses.replace(osb, api_key="wrong").run("sandbox", "list")
    assert done.returncode == 4
    advice = "give the key with: osb config set connection.api_key KEY"
    pattern = rf"osb: .*key.*; {advice} \[request .+\]"
    assert re.fullmatch(pattern, line_of(done))


@pytest.mark.parametrize("words", ["sandbox get", "sandbox kill", "sandbox metrics", "logs"])
def test_an_unknown_sandbox(osb: Osb, words: str) -> None:
    done = osb.run(*words.split(), "no-such-sandbox")
    assert done.returncode == 5
    pattern = r"osb: .*no-such-sandbox.*; list sandboxes with: osb sandbox list \[request .+\]"
    assert re.fullmatch(pattern, line_of(done))


def test_a_sandbox_that_was_ended(osb: Osb) -> None:
    with osb.sandbox() as made:
        pass
    done = osb.run("exec", made, "--", "true")
    assert done.returncode == 125
    assert "osb sandbox list" in line_of(done)


@pytest.mark.parametrize("words", ["exec ID -- CMD", "logs -f ID XID"])
def test_a_sandbox_that_expires_meanwhile(osb: Osb, words: str) -> None:
    with osb.sandbox() as made:
        begun = osb.print_("command", "run", made, "-d", "--", "sleep", "600").strip()
        known = {"ID": made, "XID": begun, "CMD": "sleep 600"}
        osb.print_("sandbox", "renew", made, "--timeout", "3s")
        done = osb.run(*(known.get(word, word) for word in words.split()))
    assert done.returncode == (125 if words.startswith("exec") else 5)
    pattern = rf"osb: .*{made}.*; list sandboxes with: osb sandbox list \[request .+\]"
    assert re.fullmatch(pattern, line_of(done))


def test_an_image_that_is_not_here(real_osb: Osb) -> None:
    done = real_osb.run("sandbox", "create", "--image", "no-such-image")
    assert done.returncode == 1
    pattern = r"osb: .*images pull no-such-image.*the image host needs no download \[request .+\]"
    assert re.fullmatch(pattern, line_of(done))


def test_a_missing_file(osb: Osb) -> None:
    with osb.sandbox() as made:
        done = osb.run("file", "cat", made, "/no/such/file")
    assert done.returncode == 5
    assert "/no/such/file" in line_of(done)


def test_an_unknown_command_of_a_sandbox(osb: Osb) -> None:
    with osb.sandbox() as made:
        done = osb.run("command", "status", made, "nothing")
    assert done.returncode == 5
    assert "osb command run ID -- CMD" in line_of(done)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("nonsense", "No such command 'nonsense'; see: osb --help"),
        ("sandbox get", "Missing argument 'ID'; see: osb sandbox get --help"),
        ("sandbox renew x -t soon", "write 10m, 1h30m, 90s, or seconds; see: osb sandbox renew"),
        ("sandbox create -e novalue", "'novalue' is not KEY=VALUE"),
        ("sandbox create", "no image; name one with --image"),
        ("sandbox create -i x --image-auth-username y", "go together"),
        ("sandbox create -i x -t 1s", "timeout: Input should be greater than or equal to 60"),
        ("file chmod x /y --mode 9", "octal digits"),
        ("port-forward x 99999", "like 8080 or 9000:80"),
        ("cp a b", "osb cp FILE ID:/path"),
        ("cp x:/a y:/b", "copy twice"),
        ("shell x --image host", "--image is for a new sandbox"),
        ("skills install", "say which"),
        ("config set connection.colour x", "is not one of"),
    ],
)
def test_a_command_line_that_cannot_work(lonely_osb: Osb, words: str, complaint: str) -> None:
    done = lonely_osb.run(*words.split())
    assert done.returncode == (125 if words.startswith("shell") else 2)
    assert complaint in line_of(done)


def test_a_server_that_is_not_installed_is_not_found() -> None:
    from opensandbox_cli.commands.server import find_program

    assert find_program("no-such-program-anywhere") is None


def test_a_traceback_comes_only_when_asked_for(lonely_osb: Osb) -> None:
    quiet = lonely_osb.run("--domain", "127.0.0.1:1", "sandbox", "list")
    assert b"Traceback" not in quiet.stderr
    loud = lonely_osb.run("-v", "--domain", "127.0.0.1:1", "sandbox", "list")
    assert b"Traceback" in loud.stderr
    assert loud.stderr.splitlines()[-1] == quiet.stderr.splitlines()[-1]
