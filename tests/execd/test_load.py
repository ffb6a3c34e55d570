# SPDX-License-Identifier: Apache-2.0
"""Hostile load: memory stays flat, others keep answering, nothing is left afterwards.

The limits are far above what the daemon needs and far below what it would need if it kept what
passes through it.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.execd.events import output_bytes, replay, run, start, status
from tests.execd.multipart import END, metadata, part, write
from tests.execd.resources import children, descriptors, peak_mib, reset_peak
from tests.harness.execd import Daemon, run_daemon
from tests.harness.wait import eventually

FLAT_MIB = 64.0  # above what it had at rest, whatever passes through
STREAMS = 500
STREAMS_MIB = 160.0  # 500 streams need their goroutines and buffers: about 150 KiB each at rest


@pytest.fixture
def execd() -> Iterator[Daemon]:
    """Run a fresh daemon, as whoever runs the tests; one surrounding is enough for load."""
    with run_daemon("root" if os.geteuid() == 0 else "user") as daemon:
        yield daemon


class Growth:
    """How far above rest the daemon's memory went."""

    def __init__(self, daemon: Daemon) -> None:
        """Begin at rest."""
        run(daemon.client, "true")
        self._pid = daemon.pid
        reset_peak(daemon.pid)
        self._rest = peak_mib(daemon.pid)

    def mib(self) -> float:
        """Return the peak so far, above rest."""
        return peak_mib(self._pid) - self._rest


def request(daemon: Daemon, body: object) -> socket.socket:
    """Send POST /command and read nothing of the answer."""
    content = json.dumps(body).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(str(daemon.socket_path))
    head = f"POST /command HTTP/1.1\r\nHost: execd\r\nContent-Length: {len(content)}\r\n\r\n"
    connection.sendall(head.encode() + content)
    return connection


def assert_nothing_is_left(daemon: Daemon, at_rest: list[str]) -> None:
    """Wait until descriptors and children are as they were; only one connection may be open."""
    eventually(lambda: not children(daemon.pid))
    eventually(lambda: len(descriptors(daemon.pid)) <= len(at_rest))


def rest(daemon: Daemon) -> list[str]:
    run(daemon.client, "true")
    eventually(lambda: not children(daemon.pid))
    return descriptors(daemon.pid)


def test_a_slow_reader_holds_back_its_command_and_nothing_else(execd: Daemon) -> None:
    at_rest, growth = rest(execd), Growth(execd)
    with ExitStack() as stack:
        for _ in range(8):
            connection = request(execd, {"command": "yes 0123456789"})
            stack.enter_context(connection)
            assert connection.recv(15)  # it has begun
        for _ in range(50):
            assert run(execd.client, "echo still here").stdout == ["still here"]
        assert growth.mib() < FLAT_MIB
        for pid in children(execd.pid):
            os.kill(pid, 9)
    assert_nothing_is_left(execd, at_rest)


def test_a_line_of_100_mb_arrives_whole_in_frames_clients_can_read(execd: Daemon) -> None:
    size = 100_000_000
    growth = Growth(execd)
    command = f"head -c {size} /dev/zero | tr '\\0' x"
    received, longest = 0, 0
    with execd.client.stream("POST", "/command", json={"command": command}) as response:
        rest_of_frame = b""
        for piece in response.iter_raw():
            *frames, rest_of_frame = (rest_of_frame + piece).split(b"\n\n")
            for frame in frames:
                longest = max(longest, len(frame))
                event = json.loads(frame)
                received += len(event["text"]) if event["type"] == "stdout" else 0
    assert received == size
    assert longest < 4 << 20
    assert growth.mib() < FLAT_MIB


def test_output_at_full_speed_is_bounded_in_memory_and_on_disk(execd: Daemon) -> None:
    growth = Growth(execd)
    identifier = start(execd.client, "yes 0123456789 | head -c 500000000")
    ended = replay(execd.client, identifier, cursor=499_999_989)
    assert output_bytes(ended).endswith(b"789\n01234")
    assert ended.exit_code == 0
    assert growth.mib() < FLAT_MIB
    state = execd.log_path.parent / "state"
    kept = sum(entry.stat().st_size for entry in state.rglob("*") if entry.is_file())
    assert kept < 64 << 20


def test_500_streams_at_once_all_get_their_output(execd: Daemon) -> None:
    at_rest, growth = rest(execd), Growth(execd)
    gate = f"{execd.workdir}/gate"
    os.mkfifo(gate)
    with ExitStack() as stack:
        body = {"command": f"echo ready; read line < {gate}; echo done"}
        connections = [stack.enter_context(request(execd, body)) for _ in range(STREAMS)]
        for connection in connections:
            read_until(connection, b'"ready"')
        assert run(execd.client, "echo still here").stdout == ["still here"]
        assert growth.mib() < STREAMS_MIB
        # Open for both, so that it never has an end; a shell reads exactly one line of a pipe.
        opened = os.open(gate, os.O_RDWR)
        stack.callback(os.close, opened)
        os.write(opened, b"\n" * STREAMS)
        for connection in connections:
            read_until(connection, b"execution_complete")
    assert_nothing_is_left(execd, at_rest)


def read_until(connection: socket.socket, wanted: bytes) -> None:
    seen = b""
    while wanted not in seen:
        piece = connection.recv(65536)
        assert piece, seen
        seen += piece


def test_clients_that_vanish_leave_nothing_behind(execd: Daemon) -> None:
    at_rest = rest(execd)
    for _ in range(100):
        connection = request(execd, {"command": "echo up; sleep 0.2; echo on"})
        assert connection.recv(15)
        connection.close()
    for _ in range(20):
        partial = socket.socket(socket.AF_UNIX)
        partial.connect(str(execd.socket_path))
        partial.sendall(b"POST /command HTTP/1.1\r\nHost: execd\r\nContent-Length: 1000\r\n\r\n{")
        partial.close()
    assert_nothing_is_left(execd, at_rest)
    assert run(execd.client, "echo fine").stdout == ["fine"]


def test_a_vanished_uploader_leaves_no_file(execd: Daemon) -> None:
    at_rest = rest(execd)
    body = metadata(f"{execd.workdir}/half") + part("file", b"x" * 1_000_000)
    for _ in range(10):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(execd.socket_path))
            connection.sendall(
                b"POST /files/upload HTTP/1.1\r\nHost: execd\r\nContent-Length: 99999999\r\n"
                b"Content-Type: multipart/form-data; boundary=test-boundary\r\n\r\n" + body
            )
    assert_nothing_is_left(execd, at_rest)
    eventually(lambda: {p.name for p in Path(execd.workdir).iterdir()} <= {".execd-envs"})


def test_large_files_pass_through_flat_memory(execd: Daemon) -> None:
    growth = Growth(execd)
    size, block = 300 << 20, os.urandom(1 << 20)
    path = f"{execd.workdir}/large"

    def body() -> Iterator[bytes]:
        yield metadata(path)
        yield part("file", b"")[:-2]
        for _ in range(size // len(block)):
            yield block
        yield b"\r\n" + END

    headers = {"content-type": "multipart/form-data; boundary=test-boundary"}
    answer = execd.client.post("/files/upload", content=body(), headers=headers)
    assert answer.status_code == 200
    received = 0
    with execd.client.stream("GET", "/files/download", params={"path": path}) as response:
        for piece in response.iter_raw():
            received += len(piece)
    assert received == size
    lines = execd.client.get("/files/download", params={"path": path, "offset": "999999999"})
    assert lines.status_code == 200
    assert growth.mib() < FLAT_MIB


def test_replacing_in_and_hashing_a_large_file_stays_flat(execd: Daemon) -> None:
    path = f"{execd.workdir}/large"
    write(execd.client, path, b"abc\n")
    run(execd.client, f"yes needle-in-hay | head -c 200000000 > {path}")
    growth = Growth(execd)
    execd.client.get("/files/checksum", params={"path": path}).raise_for_status()
    assert growth.mib() < FLAT_MIB


def test_a_thousand_commands_leave_memory_where_it_was(execd: Daemon) -> None:
    for _ in range(100):
        run(execd.client, "true")
    growth = Growth(execd)
    for _ in range(1000):
        identifier = run(execd.client, "true").id
    assert status(execd.client, identifier)["exit_code"] == 0
    assert growth.mib() < FLAT_MIB / 2
