# SPDX-License-Identifier: Apache-2.0
"""``osb port-forward``: a port of a sandbox on this machine."""

import re
import signal
import socket
import subprocess

import httpx
import pytest

from cli.tests.program import WAIT_SECONDS, Osb
from cli.tests.screen import started

pytestmark = pytest.mark.slow

# Says that it listens; answers each connection with what it got, once that has ended.
ECHO = """
import socket
with socket.create_server(("127.0.0.1", 7000)) as server:
    print("listening", flush=True)
    while True:
        connection, _ = server.accept()
        with connection, connection.makefile("rwb") as stream:
            stream.write(b"got " + stream.read())
"""


def ports_of(process: "subprocess.Popen[bytes]", count: int) -> list[int]:
    """Read the local ports that were announced."""
    assert process.stdout is not None
    lines = [process.stdout.readline().decode() for _ in range(count)]
    found = [re.match(r"forwarding 127\.0\.0\.1:(\d+) to port \d+ of ", line) for line in lines]
    return [int(match[1]) for match in found if match]


def test_connections_reach_a_port_that_listens_on_localhost_there(real_osb: Osb) -> None:
    with (
        real_osb.sandbox() as made,
        started(real_osb, "exec", made, "--", "python3", "-c", ECHO) as listening,
        started(real_osb, "exec", made, "--", "python3", "-u", "-m", "http.server", "8000") as web,
        started(real_osb, "port-forward", made, "0:7000", "0:8000", "0:9") as forwarding,
    ):
        assert listening.stdout is not None
        assert web.stdout is not None
        assert listening.stdout.readline() == b"listening\n"
        assert b"Serving HTTP" in web.stdout.readline()
        echo, http, closed = ports_of(forwarding, 3)
        for number in range(3):
            with socket.create_connection(("127.0.0.1", echo), WAIT_SECONDS) as connection:
                connection.sendall(b"%d" % number * 100_000)
                connection.shutdown(socket.SHUT_WR)
                with connection.makefile("rb") as answer:
                    assert answer.read() == b"got " + b"%d" % number * 100_000
        assert httpx.get(f"http://127.0.0.1:{http}/").status_code == 200
        with socket.create_connection(("127.0.0.1", closed), WAIT_SECONDS) as connection:
            assert connection.recv(1) == b""  # nothing listens there: closed, and the rest goes on
        assert httpx.get(f"http://127.0.0.1:{http}/").status_code == 200
        forwarding.send_signal(signal.SIGINT)
        assert forwarding.wait(WAIT_SECONDS) == 130
        _, errors = forwarding.communicate()
        assert b"osb: port 9: " in errors
        assert b"Traceback" not in errors


@pytest.mark.parametrize("end", ["killed", "exits by itself"])
def test_it_ends_with_its_sandbox(osb: Osb, end: str) -> None:
    entrypoint = ["sh", "-c", f"while [ ! -e {osb.home}/gone ]; do sleep 0.1; done"]
    with (
        osb.sandbox(entrypoint=entrypoint) as made,
        started(osb, "port-forward", made, "0:7000") as forwarding,
    ):
        (local,) = ports_of(forwarding, 1)
        if end == "killed":
            osb.print_("sandbox", "kill", made)
        else:
            (osb.home / "gone").touch()
        assert forwarding.wait(WAIT_SECONDS) == 5
        _, errors = forwarding.communicate()
        assert f"osb: sandbox {made} has ended; " in errors.decode()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", local), WAIT_SECONDS)


def test_a_local_port_that_is_taken_is_named(osb: Osb) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, osb.sandbox() as made:
        port = taken.getsockname()[1]
        done = osb.run("port-forward", made, f"{port}:80")
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr.decode()
    assert b"LOCAL:REMOTE" in done.stderr
