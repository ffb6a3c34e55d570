# SPDX-License-Identifier: Apache-2.0
"""Other programs of the host translate addresses, too; that opens nothing to a sandbox.

A container engine publishes ports, a cluster has addresses for its services, a proxy takes over
connections: the kernel has put the real destination into a packet before our rules see it.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import pytest

from tests.harness.runtime import Box, Home, listening, opened_home
from tests.security.internet import PRIVATE, RESOLVER, accepting, connect

SERVICE = "10.96.0.1"


@pytest.fixture(scope="module")
def home(network: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A runtime whose sandboxes ask a server of ours for names."""
    assert network >= 0
    with opened_home(tmp_path_factory.mktemp("home"), {"nameserver": RESOLVER}) as opened:
        yield opened


@contextlib.contextmanager
def translating(rule: str) -> Iterator[None]:
    """Have a table of another program, which comes just before where most of them are."""
    chain = f"chain p {{ type nat hook prerouting priority dstnat - 5; {rule}; }};"
    subprocess.run(["nft", f"table ip theirs {{ {chain} }}"], check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "ip", "theirs"], check=True)


def gateway_of(box: Box) -> str:
    """Return the address of the bridge."""
    return box.sh("sed -n 's/nameserver //p' /etc/resolv.conf").output


@pytest.mark.parametrize("published", ["203.0.113.1", "the bridge", SERVICE])
def test_a_published_port_or_a_cluster_service_is_not_reached(
    home: Home, outside: int, published: str
) -> None:
    box = home.start()
    address = gateway_of(box) if published == "the bridge" else published
    with listening(outside, PRIVATE) as port:
        rule = f"ip daddr {address} tcp dport 5432 dnat to {PRIVATE}:{port}"
        with translating(rule), accepting(home, "outbound"):
            assert connect(box, address, 5432) == "hello"
        with translating(rule):
            assert connect(box, address, 5432) == "TimeoutError"


def test_a_proxy_that_takes_over_connections_is_not_reached(
    home: Home, network: int, outside: int
) -> None:
    assert outside >= 0
    box = home.start()
    with listening(network, "0.0.0.0") as port:  # of a network of its own
        with translating(f"tcp dport 80 redirect to :{port}"), accepting(home, "input"):
            assert connect(box, "198.51.100.7", 80) == "hello"
        with translating(f"tcp dport 80 redirect to :{port}"):
            assert connect(box, "198.51.100.7", 80) == "TimeoutError"


def test_names_are_asked_for_where_we_say_whatever_others_do_with_port_53(
    home: Home, outside: int
) -> None:
    box = home.start()
    gateway = gateway_of(box)
    with (
        listening(outside, RESOLVER, 53, b"ours"),
        listening(outside, PRIVATE, 53, b"theirs"),
        translating(f"tcp dport 53 dnat to {PRIVATE}:53"),
    ):
        assert connect(box, gateway, 53) == "ours"
