# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_tunnels.py by scripts/unasync.py; change it there.
"""Tunnels: raw TCP to a port of the sandbox."""

import socket

import pytest

from opensandbox import SandboxSync
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxConnectionException,
)
from sdks.python.tests.echoing import run_shouting


def test_bytes_go_both_ways_and_each_side_ends_by_itself(sandbox: SandboxSync) -> None:
    with run_shouting() as port:
        with sandbox.open_tunnel(port) as tunnel:
            sent = b"abc" * 500_000
            for start in range(0, len(sent), 100_000):
                tunnel.send(sent[start : start + 100_000])
            tunnel.end()
            received = b""
            while data := tunnel.receive():
                received += data
            assert received == sent.upper()
            assert tunnel.receive() == b""


def test_a_port_where_nobody_listens_is_an_error_with_advice(sandbox: SandboxSync) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(SandboxApiException, match="nothing answers") as refused:
        sandbox.open_tunnel(port)
    assert refused.value.status_code == 502
    for wrong in (0, -1, 65536):
        with pytest.raises(InvalidArgumentException, match="port"):
            sandbox.open_tunnel(wrong)


def test_an_application_that_breaks_off_is_told(sandbox: SandboxSync) -> None:
    with run_shouting(breaks=True) as port:
        with sandbox.open_tunnel(port) as tunnel:
            tunnel.send(b"x")
            with pytest.raises(SandboxConnectionException, match="broke"):
                tunnel.receive()
