# SPDX-License-Identifier: Apache-2.0
"""A sandbox sends with its own addresses only, whatever else it got hold of."""

from __future__ import annotations

import shlex
import socket

import pytest
from pyroute2 import IPRoute  # type: ignore[import-untyped]

from tests.harness.runtime import Box, Home, in_namespace, listening
from tests.harness.wait import eventually
from tests.security.internet import (
    PUBLIC,
    accepting,
    address_of,
    connect,
    forget,
    hardware_of,
    learned,
)

RAW = """
import socket, struct, sys
source, word = sys.argv[1], sys.argv[2].encode()
udp = struct.pack("!HHHH", 9999, 9999, 8 + len(word), 0) + word
ends = socket.inet_aton(source) + socket.inet_aton("203.0.113.2")
head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + ends
sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
sender.setsockopt(socket.IPPROTO_IP, 3, 1)  # IP_HDRINCL
sender.sendto(head + udp, ("203.0.113.2", 0))
print("sent")
"""
BOUND = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND
sender.bind((sys.argv[1], 0))
sender.sendto(sys.argv[2].encode(), ("203.0.113.2", 9999))
print("sent")
"""


CLAIM = """
import socket, sys
hardware, address, gateway = bytes.fromhex(sys.argv[1]), *map(socket.inet_aton, sys.argv[2:])
ask = bytes.fromhex("0001080006040001") + hardware + address + bytes(6) + gateway
raw = socket.socket(17, socket.SOCK_RAW, 0x608)
raw.bind(("eth0", 0x806))
raw.send(bytes.fromhex("ffffffffffff") + hardware + bytes.fromhex("0806") + ask)
"""
"""Asks for the gateway's hardware address, in the name of whoever is given."""


def send(box: Box, program: str, source: str, word: str) -> str:
    """Send a word with a source address."""
    return box.sh(f"/usr/bin/python3 -c {shlex.quote(program)} {source} {word}").output


def test_nothing_is_sent_with_a_foreign_address(home: Home, outside: int) -> None:
    strong, weak, foreign = home.start(), home.start(without=("capabilities",)), "198.51.100.7"
    with in_namespace(outside, lambda: _udp(PUBLIC, 9999)) as receiver:
        with accepting(home, "prerouting"), accepting(home, "prerouting", "bridge"):
            assert send(weak, RAW, foreign, "unprotected") == "sent"
            assert receiver.recvfrom(100) == (b"unprotected", (foreign, 9999))
        for family in ("inet", "bridge"):  # each of two locks is enough
            with accepting(home, "prerouting", family):
                assert send(weak, RAW, foreign, "against-rules") == "sent"
        assert "OSError" in send(strong, BOUND, foreign, "bound")
        assert "PermissionError" in send(strong, RAW, foreign, "raw")
        assert send(strong, BOUND, "0.0.0.0", "honest") == "sent"
        assert receiver.recvfrom(100)[0] == b"honest"


def test_nothing_is_sent_with_the_address_of_a_sibling(home: Home, outside: int) -> None:
    strong, weak = home.start(), home.start(without=("capabilities",))
    sibling = address_of(home.start())
    with in_namespace(outside, lambda: _udp(PUBLIC, 9999)) as receiver:
        with accepting(home, "prerouting", "bridge"):
            assert send(weak, RAW, sibling, "unprotected") == "sent"
            assert receiver.recvfrom(100)[0] == b"unprotected"
        assert send(weak, RAW, sibling, "against-rules") == "sent"
        assert "PermissionError" in send(strong, RAW, sibling, "raw")
        assert "OSError" in send(strong, BOUND, sibling, "bound")
        assert send(strong, BOUND, "0.0.0.0", "honest") == "sent"
        assert receiver.recvfrom(100)[0] == b"honest"


def _udp(address: str, port: int) -> socket.socket:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((address, port))
    receiver.settimeout(8)
    return receiver


@pytest.mark.parametrize("claimed", ["address", "hardware"])
def test_the_host_does_not_believe_who_claims_to_be_a_sibling(home: Home, claimed: str) -> None:
    """Who answers for an address gets what is sent to it."""
    weak = home.start(without=("capabilities", "seccomp"))
    sibling = home.start()
    own, others = (hardware_of(weak), address_of(weak)), (hardware_of(sibling), address_of(sibling))
    false = (own[0], others[1]) if claimed == "address" else (others[0], own[1])
    with accepting(home, "prerouting", "bridge"):
        assert claim(home, weak, false).get(false[1]) != false[0]  # the host knows better
        forget(home, own[1], others[1])
        # Again and again: what the host has just learned it does not change for a second.
        eventually(lambda: claim(home, weak, false).get(false[1]) == false[0])
    forget(home, own[1], others[1])
    assert false[1] not in claim(home, weak, false)
    eventually(lambda: claim(home, weak, own).get(own[1]) == own[0])
    assert learned(home).get(false[1]) != false[0]


def test_a_link_keeps_its_hardware_address(home: Home, outside: int) -> None:
    box = home.start(without=("capabilities",))
    with listening(outside, PUBLIC) as port:
        assert connect(box, PUBLIC, port) == "hello"
        box.sh("ip link set eth0 arp on address 02:00:00:00:00:77")
        forget(home, address_of(box))  # or the host would send to the hardware address it knows
        with accepting(home, "prerouting", "bridge"):
            assert connect(box, PUBLIC, port) == "hello"
        assert connect(box, PUBLIC, port) in ("TimeoutError", "OSError")


def claim(home: Home, box: Box, sender: tuple[str, str]) -> dict[str, str]:
    """Ask the bridge for its hardware address in the name of a sender; returns what it learned."""
    hardware, address = sender
    with IPRoute() as netlink:
        bridge = netlink.link_lookup(ifname=home.bridge)[0]
        gateway = next(iter(netlink.get_addr(index=bridge, family=2))).get_attr("IFA_ADDRESS")
    words = f"{hardware.replace(':', '')} {address} {gateway}"
    asked = box.sh(f"/usr/bin/python3 -c {shlex.quote(CLAIM)} {words}")
    assert asked.status == 0, asked.output
    return learned(home)
