# SPDX-License-Identifier: Apache-2.0
"""Tunnels: raw TCP to a port of the sandbox."""

import socket

import pytest

from opensandbox import Sandbox
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxConnectionException,
)
from sdks.python.tests.echoing import run_shouting

pytestmark = pytest.mark.anyio


async def test_bytes_go_both_ways_and_each_side_ends_by_itself(sandbox: Sandbox) -> None:
    with run_shouting() as port:
        async with await sandbox.open_tunnel(port) as tunnel:
            sent = b"abc" * 500_000
            for start in range(0, len(sent), 100_000):
                await tunnel.send(sent[start : start + 100_000])
            await tunnel.end()
            received = b""
            while data := await tunnel.receive():
                received += data
            assert received == sent.upper()
            assert await tunnel.receive() == b""


async def test_a_port_where_nobody_listens_is_an_error_with_advice(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(SandboxApiException, match="nothing answers") as refused:
        await sandbox.open_tunnel(port)
    assert refused.value.status_code == 502
    for wrong in (0, -1, 65536):
        with pytest.raises(InvalidArgumentException, match="port"):
            await sandbox.open_tunnel(wrong)


async def test_an_application_that_breaks_off_is_told(sandbox: Sandbox) -> None:
    with run_shouting(breaks=True) as port:
        async with await sandbox.open_tunnel(port) as tunnel:
            await tunnel.send(b"x")
            with pytest.raises(SandboxConnectionException, match="broke"):
                await tunnel.receive()
