# SPDX-License-Identifier: Apache-2.0
"""An address that goes to the next sandbox brings nothing of the former one's connections."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.launcher import syscalls
from opensandbox_server.runtimes.oci.network import conntrack
from opensandbox_server.runtimes.oci.network.network import Network, claim_block
from opensandbox_server.runtimes.oci.network.rules import NetworkOptions
from tests.harness.runtime import in_namespace, missing, own_network
from tests.security.internet import tracked

SUBNET = IPv4Network("10.200.0.0/16")
HERE = IPv4Address("127.0.0.1")
MOST = 20


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Network]:
    """A bridge with its rules, in a network of its own."""
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")
    with own_network():
        block, claim = claim_block(tmp_path / "block.json", "/nowhere", SUBNET, tmp_path / "claims")
        network = Network(block, NetworkOptions("127.0.0.1", all_connections=MOST))
        network.open()
        yield network
        network.close()
        claim.close()


def connect_and_ask(network: Network, index: int) -> None:
    """Give a slot to a network namespace that asks the bridge for a name, and then ends."""
    with aside() as netns:
        network.connect(index, netns)
        in_namespace(netns, lambda: send(str(network.block.gateway), 53))
    network.disconnect(index)


def send(address: str, port: int) -> None:
    """Send a word by UDP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"who", (address, port))


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
    conntrack.forget_each(opened.block.address(9))


def test_one_sandbox_cannot_take_what_all_together_may_have(opened: Network) -> None:
    with aside() as netns:
        opened.connect(2, netns)
        for _ in range(MOST):
            in_namespace(netns, lambda: send(str(opened.block.gateway), 53))
        assert tracked(opened.block.address(2)) == MOST // 8
    opened.disconnect(2)


def test_while_the_host_tracks_too_many_no_sandbox_opens_another(opened: Network) -> None:
    for port in range(40000, 40000 + MOST + 1):
        send(str(HERE), port)
    assert tracked(HERE) > MOST
    connect_and_ask(opened, 2)
    opened.keep_up()
    connect_and_ask(opened, 3)
    assert [tracked(opened.block.address(index)) for index in (2, 3)] == [1, 0]
    conntrack.forget(HERE)
    opened.keep_up()
    connect_and_ask(opened, 4)
    assert tracked(opened.block.address(4)) == 1


def test_a_kernel_that_removes_one_at_a_time_forgets_as_well(opened: Network) -> None:
    first, second = opened.block.address(2), opened.block.address(3)
    connect_and_ask(opened, 2)
    connect_and_ask(opened, 3)
    assert (tracked(first), tracked(second)) == (1, 1)
    conntrack.forget_each(first)
    assert (tracked(first), tracked(second)) == (0, 1)
