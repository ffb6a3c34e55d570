# SPDX-License-Identifier: Apache-2.0
"""The access token: asked for on every route, never visible to commands."""

import hashlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.specification import document
from tests.execd.events import run
from tests.harness.execd import (
    TOKEN_HEADER,
    Daemon,
    DaemonUnavailableError,
    client_of,
    is_listening,
    outcome,
    run_daemon,
    running,
)
from tests.harness.wait import eventually

TOKEN = "correct horse battery staple"  # noqa: S105 - a test's own
METHODS = ("get", "put", "post", "delete", "patch", "head", "options")


def routes() -> list[tuple[str, str]]:
    """Return every operation of the specification, and some that are in no specification."""
    paths = document()["paths"]
    declared = [(m.upper(), path) for path, item in paths.items() for m in item if m in METHODS]
    return [
        *declared,
        ("GET", "/ping"),
        ("GET", "/"),
        ("GET", "/no/such/route"),
        ("GET", "/proxy/1"),
        ("POST", "/proxy/44772/command"),
        ("GET", "/proxy"),
        ("OPTIONS", "/command"),
        ("TRACE", "/command"),
        ("GET", "//ping"),
        ("GET", "/../ping"),
    ]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Daemon]:
    """Run one daemon with a token for all tests here: no request of theirs is let in."""
    try:
        with run_daemon("user", token=TOKEN) as daemon:
            yield daemon
    except DaemonUnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture
def stranger(guarded: Daemon) -> Iterator[httpx.Client]:
    with client_of(guarded.socket_path) as client:
        yield client


@pytest.mark.parametrize(("method", "path"), sorted(set(routes())))
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper()])
def test_every_route_asks_for_the_token(
    stranger: httpx.Client, method: str, path: str, token: str | None
) -> None:
    headers = {} if token is None else {TOKEN_HEADER: token}
    answer = stranger.request(method, path, headers=headers)
    assert answer.status_code == 401
    if method != "HEAD":
        assert set(answer.json()) == {"error"}


def test_connect_asks_for_the_token(guarded: Daemon) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(guarded.socket_path))
        connection.sendall(b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_a_question_about_the_whole_server_asks_for_the_token(guarded: Daemon) -> None:
    """net/http would answer OPTIONS * before any route is looked at."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(guarded.socket_path))
        connection.sendall(b"OPTIONS * HTTP/1.1\r\nHost: execd\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 401")


def test_the_token_opens(guarded: Daemon) -> None:
    assert guarded.client.get("/ping").status_code == 200


def test_no_command_sees_the_token(guarded: Daemon) -> None:
    execution = run(guarded.client, "env; tr '\\0' '\\n' < /proc/$PPID/cmdline")
    assert TOKEN not in "\n".join(execution.stdout)


def test_a_command_of_the_same_user_cannot_look_into_the_daemon() -> None:
    look = "( : < /proc/$PPID/mem ) && echo memory; ( : < /proc/$PPID/environ ) && echo environment"
    with run_daemon("user", ["--traceable=true"], token=TOKEN) as open_daemon:
        assert run(open_daemon.client, look).stdout == ["memory", "environment"]
    with run_daemon("user", ["--traceable=false"], token=TOKEN) as daemon:
        assert run(daemon.client, look).stdout == []
        assert run(daemon.client, ": < /proc/$$/mem && echo my own").stdout == ["my own"]


def test_the_token_is_in_no_log(guarded: Daemon) -> None:
    assert TOKEN not in guarded.log_path.read_text()


def test_a_token_is_read_from_a_descriptor(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, TOKEN.encode() + b"\n")
    os.close(writer)
    path = tmp_path / "s"
    flags = [f"--listen=unix://{path}", f"--access-token-fd={reader}"]
    with running(tmp_path, *flags, pass_fds=[reader]), client_of(path) as client:
        os.close(reader)
        eventually(lambda: is_listening(path))
        assert client.get("/ping").status_code == 401
        assert client.get("/ping", headers={TOKEN_HEADER: TOKEN}).status_code == 200


def test_the_hash_of_a_token_is_enough_to_know_it(tmp_path: Path) -> None:
    path, digest = tmp_path / "s", hashlib.sha256(TOKEN.encode()).hexdigest()
    flags = [f"--listen=unix://{path}", f"--access-token-sha256={digest}"]
    with running(tmp_path, *flags), client_of(path) as client:
        eventually(lambda: is_listening(path))
        for wrong in ("", "wrong", digest):
            assert client.get("/ping", headers={TOKEN_HEADER: wrong}).status_code == 401
        assert client.get("/ping", headers={TOKEN_HEADER: TOKEN}).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--access-token=x"], {}),
        (["--access-token-sha256=x"], {}),
        ([f"--access-token-sha256={'0' * 66}"], {}),
        ([f"--access-token-sha256={'0' * 64}", "--access-token-file=/etc/hostname"], {}),
        ([], {"EXECD_ACCESS_TOKEN": "x"}),
        (["--access-token-file=/does/not/exist"], {}),
        (["--access-token-fd=99"], {}),
        (["--access-token-file=/dev/null"], {}),
    ],
    ids=str,
)
def test_a_token_that_commands_could_see_or_that_is_missing_stops_the_start(
    tmp_path: Path, arguments: list[str], environment: dict[str, str]
) -> None:
    """An unreadable or empty token must not mean open access."""
    flags = [f"--listen=unix://{tmp_path / 's'}", *arguments]
    ended = outcome(tmp_path, *flags, environment=environment)
    assert ended.returncode > 0
    assert b"token" in ended.stderr
