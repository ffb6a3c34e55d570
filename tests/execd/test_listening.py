# SPDX-License-Identifier: Apache-2.0
"""Where the daemon listens: TCP, a unix socket, an inherited descriptor."""

import socket
from pathlib import Path

import httpx
import pytest

from tests.harness.execd import BINARY, Daemon, client_of, is_listening, outcome, running
from tests.harness.wait import eventually


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_the_same_daemon_answers_on_every_inherited_socket(daemon: Daemon) -> None:
    assert daemon.client.get("/ping").content == b""
    if daemon.kind != "busybox":  # its loopback is not ours, but an inherited socket is
        assert httpx.get(f"{daemon.url}/ping", trust_env=False).status_code == 200


def test_listen_may_be_repeated_with_tcp_and_unix(tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "execd.sock"
    flags = [f"--listen=tcp://127.0.0.1:{port}", f"--listen=unix://{path}"]
    with running(tmp_path, *flags) as process, client_of(path) as client:
        eventually(lambda: is_listening(path))
        assert client.get("/ping").status_code == 200
        assert httpx.get(f"http://127.0.0.1:{port}/ping", trust_env=False).status_code == 200
    assert process.returncode == 0
    assert not path.exists()


def test_a_socket_that_a_dead_daemon_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "execd.sock"
    with running(tmp_path, f"--listen=unix://{path}") as process:
        eventually(lambda: is_listening(path))
        process.kill()
        process.wait(20)
    assert path.exists()
    with running(tmp_path, f"--listen=unix://{path}"), client_of(path) as client:
        eventually(lambda: is_listening(path))
        assert client.get("/ping").status_code == 200


def test_a_socket_that_a_living_daemon_has_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "execd.sock"
    with running(tmp_path, f"--listen=unix://{path}"), client_of(path) as client:
        eventually(lambda: is_listening(path))
        second = outcome(tmp_path, f"--listen=unix://{path}")
        assert second.returncode > 0
        assert client.get("/ping").status_code == 200


def is_answering(client: httpx.Client) -> bool:
    try:
        return client.get("/ping").status_code == 200
    except httpx.TransportError:
        return False


def test_port_listens_on_that_port(tmp_path: Path) -> None:
    port = free_port()
    with (
        running(tmp_path, f"--port={port}"),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        eventually(lambda: is_answering(client))


def test_a_request_made_before_the_daemon_exists_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "execd.sock"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as connection:
        listener.bind(str(path))
        listener.listen()
        connection.settimeout(20)
        connection.connect(str(path))
        connection.sendall(b"GET /ping HTTP/1.1\r\nHost: execd\r\nConnection: close\r\n\r\n")
        descriptor = listener.fileno()
        with running(tmp_path, f"--listen=fd://{descriptor}", pass_fds=[descriptor]):
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert path.exists()  # it is its maker's


@pytest.mark.parametrize(
    "address",
    ["", "nonsense", "udp://127.0.0.1:1", "fd://x", "fd://-1", "fd://99", "tcp://nope", "unix://"],
)
def test_an_address_it_cannot_listen_on_stops_the_start(tmp_path: Path, address: str) -> None:
    ended = outcome(tmp_path, f"--listen={address}")
    assert ended.returncode > 0
    assert ended.stderr.startswith(b"execd: listen on ")


def test_an_unknown_flag_is_named(tmp_path: Path) -> None:
    ended = outcome(tmp_path, "--no-such-flag")
    assert ended.returncode == 2
    assert b"no-such-flag" in ended.stderr


def test_version_and_help_answer_without_starting(tmp_path: Path) -> None:
    version = (BINARY.parents[1] / "VERSION").read_text().strip()
    assert outcome(tmp_path, "--version").stdout == f"execd {version}\n".encode()
    usage = outcome(tmp_path, "--help")
    assert usage.returncode == 0
    assert b"-listen" in usage.stdout + usage.stderr


def test_the_binary_is_static() -> None:
    assert b"/ld-linux" not in BINARY.read_bytes()[:4096]
