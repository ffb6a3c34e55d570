# SPDX-License-Identifier: Apache-2.0
"""The kernel tracks the connections of all sandboxes and of the host in one table."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

import pytest

from tests.harness.runtime import Box, Home, listening, opened_home
from tests.security.internet import PUBLIC, accepting, address_of, connect, tracked

MOST = 8
OPEN_AND_KEEP = """
import socket
kept = []
for _ in range({count}):
    try: kept.append(socket.create_connection(({address!r}, {port}), 0.5))
    except OSError: pass
print(len(kept))
"""
OPEN_AND_CLOSE = """
import socket, struct, threading, time
opened = []
def try_some():
    for _ in range({count} // {lanes}):
        try: connection = socket.create_connection(({address!r}, {port}), {patience})
        except OSError: continue
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # by a reset: it no longer counts as open
        opened.append(1)
        time.sleep(0.03)  # by then the kernel has noticed, and does not count it any more
lanes = [threading.Thread(target=try_some) for _ in range({lanes})]
for lane in lanes: lane.start()
for lane in lanes: lane.join()
print(len(opened))
"""
"""Several beside each other: each waits for what is dropped, and that is no time to catch up."""
LANES = 6
TRIES = 8 * LANES


@pytest.fixture(scope="module")
def home(network: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A runtime whose sandboxes may have few connections."""
    assert network >= 0
    with opened_home(tmp_path_factory.mktemp("home"), {"connections": MOST}) as opened:
        yield opened


def opened_by(box: Box, program: str, port: int, count: int = MOST + 4) -> int:
    """Open connections one after another; returns how many could be."""
    return int(box.python(program.format(address=PUBLIC, port=port, count=count)).output)


def opened_and_closed(box: Box, port: int, count: int, patience: float) -> int:
    """Open connections that are closed at once; returns how many could be."""
    program = OPEN_AND_CLOSE.replace("{lanes}", str(LANES)).replace("{patience}", str(patience))
    return opened_by(box, program, port, count)


def test_a_sandbox_has_so_many_connections_and_leaves_others_theirs(
    home: Home, outside: int
) -> None:
    greedy, other = home.start(), home.start()
    with listening(outside, PUBLIC) as port:
        with accepting(home, "opening"):
            assert opened_by(greedy, OPEN_AND_KEEP, port) == MOST + 4
        assert opened_by(other, OPEN_AND_KEEP, port) == MOST
        assert connect(greedy, PUBLIC, port) == "hello"  # those of the others do not count


def test_connections_that_are_closed_at_once_are_opened_at_a_pace(home: Home, outside: int) -> None:
    box = home.start()
    with listening(outside, PUBLIC) as port:
        with accepting(home, "opening"):
            assert opened_and_closed(box, port, TRIES, patience=30) == TRIES
        # Less than the second after which the kernel itself tries once more.
        assert MOST <= opened_and_closed(box, port, TRIES, patience=0.9) < TRIES


def test_the_connections_of_a_sandbox_end_with_it(home: Home, outside: int) -> None:
    box = home.start()
    address = IPv4Address(address_of(box))
    with listening(outside, PUBLIC) as port:
        assert opened_by(box, OPEN_AND_KEEP, port, 3) == 3
    assert tracked(address) == 3
    box.stop()
    assert tracked(address) == 0
