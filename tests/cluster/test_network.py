# SPDX-License-Identifier: Apache-2.0
"""The address plan of a cluster: parts do not overlap, and what the host uses is left alone."""

from __future__ import annotations

import ipaddress
import itertools
import shutil

import pytest

from tools.cluster.component import ClusterError
from tools.cluster.network import BLOCKS, MOST_NODES, Network, choose_network

needs_ip = pytest.mark.skipif(shutil.which("ip") is None, reason="ip is not installed (iproute2)")


def test_the_parts_lie_in_the_block_and_apart() -> None:
    network = Network(201)
    whole = ipaddress.IPv4Network(network.whole)
    nodes = ipaddress.IPv4Network(f"{network.node(1)}/24", strict=False)
    pods = ipaddress.IPv4Network(network.pods)
    services = ipaddress.IPv4Network(network.services)
    for part in (nodes, pods, services):
        assert part.subnet_of(whole)
    for one, other in itertools.combinations((nodes, pods, services), 2):
        assert not one.overlaps(other)
    for number in range(1, MOST_NODES + 1):
        assert ipaddress.IPv4Network(network.pods_of(number)).subnet_of(pods)
        assert ipaddress.IPv4Address(network.node(number)) in nodes
    assert ipaddress.IPv4Address(network.dns) in services
    assert ipaddress.IPv4Address(network.api) == services[1]


@needs_ip
def test_a_block_is_found_that_the_host_does_not_use() -> None:
    assert choose_network(None).block in BLOCKS


@pytest.mark.parametrize("block", [-1, 256])
def test_a_block_that_cannot_be_is_refused(block: int) -> None:
    with pytest.raises(ClusterError, match=f"BLOCK is {block}; .* choose 0 to 255"):
        choose_network(block)
