# SPDX-License-Identifier: Apache-2.0
"""An address that goes to the next sandbox brings nothing of the former one's connections."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from pyroute2 import NFCTSocket  # type: ignore[import-untyped]

from opensandbox_server.runtimes.oci import conntrack, syscalls
from opensandbox_server.runtimes.oci.network import Network, claim_block
from tests.security.harness import in_namespace, missing, own_network

SUBNET = IPv4Network("10.200.0.0/16")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Network]:
    """A bridge with its rules, in a network of its own."""
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")
    with own_network():
        block, claim = claim_block(tmp_path / "block.json", "/nowhere", SUBNET, tmp_path / "claims")
        network = Network(block, "127.0.0.1", ())
        network.open()
        yield network
        network.close()
        claim.close()


def tracked(address: IPv4Address) -> int:
    """Count the connections that began at an address."""
    with NFCTSocket() as table:
        begun = [
            entry.get_attr("CTA_TUPLE_ORIG").get_attr("CTA_TUPLE_IP").get_attr("CTA_IP_V4_SRC")
            for entry in table.dump()
        ]
    return begun.count(str(address))


def connect_and_ask(network: Network, index: int) -> None:
    """Give a slot to a network namespace that asks the bridge for a name, and then ends."""

    def ask() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.sendto(b"who", (str(network.block.gateway), 53))

    with aside() as netns:
        network.connect(index, netns)
        in_namespace(netns, ask)
        for _ in range(1000):
            if tracked(network.block.address(index)):
                break
            time.sleep(0.01)  # the link asks for the hardware address first
    network.disconnect(index)


@contextlib.contextmanager
def aside() -> Iterator[int]:
    """Make a network namespace and stay outside of it."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with own_network() as netns:
        syscalls.setns(here, syscalls.CLONE_NEWNET)
        os.close(here)
        yield netns


def test_connections_end_when_their_address_is_given_to_the_next(opened: Network) -> None:
    first, second = opened.block.address(2), opened.block.address(3)
    connect_and_ask(opened, 2)
    connect_and_ask(opened, 3)
    assert (tracked(first), tracked(second)) == (1, 1)  # they outlive the link
    with aside() as netns:
        opened.connect(2, netns)
        assert (tracked(first), tracked(second)) == (0, 1)


def test_an_address_without_connections_is_no_error(opened: Network) -> None:
    conntrack.forget(opened.block.address(9))
