# SPDX-License-Identifier: Apache-2.0
"""Port access: the reverse proxy and CONNECT."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from websockets.sync.client import unix_connect
from websockets.sync.server import serve

from tests.execd.events import assert_error
from tests.harness.execd import Daemon

# The loopback of the throw-away root is not ours, so no server of this process is on it.
pytestmark = pytest.mark.parametrize("kind", ["root", "user"], indirect=True)


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        """Tell method, path, headers and body."""
        length = int(self.headers.get("content-length") or 0)
        seen = {
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": self.rfile.read(length).decode(),
        }
        body = json.dumps(seen).encode()
        self.send_response(418 if self.path.startswith("/teapot") else 200)
        self.send_header("content-length", str(len(body)))
        self.send_header("x-from", "echo")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Run the echo server on loopback."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="echo")
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_every_method_path_query_and_body_go_through(
    daemon: Daemon, port: int, method: str
) -> None:
    answer = daemon.client.request(method, f"/proxy/{port}/a/b?x=1&x=2", content=b"hello")
    assert answer.status_code == 200
    assert answer.headers["x-from"] == "echo"
    seen = answer.json()
    assert (seen["method"], seen["path"], seen["body"]) == (method, "/a/b?x=1&x=2", "hello")
    assert seen["headers"]["x-forwarded-proto"] == "http"


def test_a_port_alone_is_its_root(daemon: Daemon, port: int) -> None:
    assert daemon.client.get(f"/proxy/{port}").json()["path"] == "/"
    assert daemon.client.get(f"/proxy/{port}/").json()["path"] == "/"


def test_an_encoded_path_stays_as_it_is(daemon: Daemon, port: int) -> None:
    seen = daemon.client.get(f"/proxy/{port}/a%2Fb/%20c").json()
    assert seen["path"] == "/a%2Fb/%20c"


def test_statuses_of_the_application_are_kept(daemon: Daemon, port: int) -> None:
    assert daemon.client.get(f"/proxy/{port}/teapot").status_code == 418


def test_the_token_of_the_daemon_does_not_reach_the_application(daemon: Daemon, port: int) -> None:
    answer = daemon.client.get(f"/proxy/{port}/", headers={"x-execd-access-token": "secret"})
    assert "secret" not in answer.text


def test_nothing_listening_is_502_and_a_bad_port_400(daemon: Daemon, port: int) -> None:
    assert port
    assert daemon.client.get(f"/proxy/{closed_port()}/").status_code == 502
    for bad in ("", "0", "65536", "-1", "x", "80x"):
        assert daemon.client.get(f"/proxy/{bad}").status_code == 400, bad


def test_a_websocket_goes_through(daemon: Daemon) -> None:
    def echo(connection: object) -> None:
        for message in connection:  # type: ignore[attr-defined]
            connection.send(message)  # type: ignore[attr-defined]

    with serve(echo, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, name="websocket echo")
        thread.start()
        number = server.socket.getsockname()[1]
        uri = f"ws://execd/proxy/{number}/"
        with unix_connect(str(daemon.socket_path), uri) as client:
            client.send("through")
            assert client.recv(timeout=20) == "through"
        server.shutdown()
        thread.join()


def connect(daemon: Daemon, target: str) -> tuple[socket.socket, bytes]:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(str(daemon.socket_path))
    connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer and (piece := connection.recv(1)):
        answer += piece
    return connection, answer


def test_connect_carries_bytes_both_ways_until_each_side_ends(daemon: Daemon) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(20)
        tunnel, answer = connect(daemon, f"127.0.0.1:{listener.getsockname()[1]}")
        with tunnel:
            assert answer.startswith(b"HTTP/1.1 200")
            inside, _ = listener.accept()
            with inside:
                inside.settimeout(20)
                inside.sendall(b"server speaks first")
                assert tunnel.recv(100) == b"server speaks first"
                tunnel.sendall(b"client")
                assert inside.recv(100) == b"client"
                tunnel.shutdown(socket.SHUT_WR)  # a half-closed client still hears the answer
                assert inside.recv(100) == b""
                inside.sendall(b"last words")
                inside.shutdown(socket.SHUT_WR)
                assert tunnel.recv(100) == b"last words"
                assert tunnel.recv(100) == b""


def test_connect_carries_much(daemon: Daemon) -> None:
    size = 32 << 20
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        tunnel, _ = connect(daemon, f"127.0.0.1:{listener.getsockname()[1]}")
        inside, _ = listener.accept()
        with tunnel, inside:

            def send() -> None:
                inside.sendall(b"x" * size)
                inside.shutdown(socket.SHUT_WR)

            thread = threading.Thread(target=send, name="sender")
            thread.start()
            received = 0
            while piece := tunnel.recv(1 << 20):
                received += len(piece)
            thread.join()
    assert received == size


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("10.0.0.1:80", 400),
        ("example.com:80", 400),
        ("127.0.0.1:0", 400),
        ("127.0.0.1:65536", 400),
        ("127.0.0.1:x", 400),
        ("127.0.0.1", 400),
        ("127.0.0.2:80", 400),
    ],
)
def test_connect_refuses_other_hosts_and_bad_ports(
    daemon: Daemon, target: str, status: int
) -> None:
    connection, answer = connect(daemon, target)
    connection.close()
    assert answer.startswith(b"HTTP/1.1 %d" % status), answer


def test_connect_to_a_port_nobody_listens_on_is_502(daemon: Daemon) -> None:
    connection, answer = connect(daemon, f"127.0.0.1:{closed_port()}")
    connection.close()
    assert answer.startswith(b"HTTP/1.1 502"), answer


def test_the_proxy_without_a_port_is_a_missing_value(daemon: Daemon) -> None:
    answer = daemon.client.get("/proxy")
    assert_error(answer, 400, answer.json()["code"])
