# SPDX-License-Identifier: Apache-2.0
"""Slots: each has one sandbox at a time, whatever fails around it."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

from opensandbox_server.runtimes.oci.launcher.namespaces import Namespaces
from opensandbox_server.runtimes.oci.launcher.slots import Slots
from opensandbox_server.runtimes.oci.network.network import Network, claim_block
from opensandbox_server.runtimes.oci.network.rules import NetworkOptions

SUBNET = IPv4Network("10.200.0.0/16")


def test_a_slot_that_is_given_back_twice_is_free_once(network: int, tmp_path: Path) -> None:
    assert network >= 0
    block, claim = claim_block(tmp_path / "block.json", "/nowhere", SUBNET, tmp_path / "claims")
    namespaces = Namespaces()
    try:
        slots = Slots(
            namespaces, Network(block, NetworkOptions("127.0.0.1")), tmp_path, 0, taken=[5, 6]
        )
        slots.give_back(5)
        slots.give_back(5)
        slots.give_back(7)
        assert [slots._free.count(index) for index in (5, 6, 7)] == [1, 0, 1]
    finally:
        namespaces.close()
        claim.close()
