# SPDX-License-Identifier: Apache-2.0
"""Addresses of a cluster, and the links that join its nodes and the host.

Everything lies in one block, 10.N.0.0/16. No node has a default route, so nothing leaves the host.
Node 1 has the bridge that the other nodes and the host are plugged into: on the host there is one
link and two routes, which go when it goes.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.component import ClusterError

BLOCKS = range(201, 220)
MOST_NODES = 100
_BRIDGE = "nodes0"
_UPLINK = "host"


@dataclass(frozen=True)
class Network:
    """The address plan of one cluster."""

    block: int

    @property
    def whole(self) -> str:
        """The block that holds everything."""
        return f"10.{self.block}.0.0/16"

    @property
    def pods(self) -> str:
        """The range of all pods; each node has a part of it."""
        return f"10.{self.block}.0.0/17"

    @property
    def services(self) -> str:
        """The range of Services."""
        return f"10.{self.block}.128.0/18"

    @property
    def api(self) -> str:
        """Where pods reach the API server: the first address of the Services."""
        return f"10.{self.block}.128.1"

    @property
    def dns(self) -> str:
        """The Service of the cluster's DNS."""
        return f"10.{self.block}.128.10"

    @property
    def host(self) -> str:
        """The host as the nodes see it."""
        return f"10.{self.block}.255.254"

    @property
    def link(self) -> str:
        """The one interface that is on the host."""
        return f"osc{self.block}"

    def node(self, number: int) -> str:
        """Return the address of a node."""
        return f"10.{self.block}.255.{number}"

    def pods_of(self, number: int) -> str:
        """Return the range of a node's pods."""
        return f"10.{self.block}.{number}.0/24"


def choose_network(wanted: int | None) -> Network:
    """Return the plan for the wanted block, or for the first that the host does not use."""
    if wanted is not None and not 0 <= wanted <= 255:
        raise ClusterError(f"BLOCK is {wanted}; it is N of 10.N.0.0/16, so choose 0 to 255")
    used = list(_used())
    for block in BLOCKS if wanted is None else [wanted]:
        network = Network(block)
        if not any(ipaddress.IPv4Network(network.whole).overlaps(taken) for taken in used):
            return network
    if wanted is None:
        raise ClusterError(
            f"every block from {Network(BLOCKS[0]).whole} to {Network(BLOCKS[-1]).whole} is in use "
            "on this host; stop a cluster that runs from another clone"
        )
    raise ClusterError(
        f"{Network(wanted).whole} is in use on this host (ip route); "
        "choose another BLOCK, or none and a free one is found"
    )


def _used() -> Iterator[ipaddress.IPv4Network]:
    listed = subprocess.run(
        ["ip", "-json", "-4", "route", "show", "table", "all"], capture_output=True, check=True
    )
    for route in json.loads(listed.stdout or "[]"):
        if route["dst"] != "default":
            yield ipaddress.IPv4Network(route["dst"], strict=False)


def join_host(network: Network, pid: int, owner: str) -> None:
    """Plug the host into the first node, which is the process `pid`; the link names its owner."""
    _batch(
        f"link add {network.link} type veth peer name {_UPLINK} netns {pid}",
        f"link set {network.link} alias {owner}",
        f"addr add {network.host}/24 dev {network.link}",
        f"link set {network.link} up",
    )
    _batch(
        # A bridge without an address of its own would take the lowest of its ports'.
        f"link add {_BRIDGE} address 02:05:c0:00:00:01 type bridge",
        f"link set {_UPLINK} master {_BRIDGE} up",
        *_settle(network, 1),
        inside=pid,
    )
    _batch(
        f"route add {network.pods} via {network.node(1)}",
        f"route add {network.services} via {network.node(1)}",
    )


def join_node(network: Network, number: int, pid: int, first: int) -> None:
    """Plug a further node, the process `pid`, into the first."""
    port = f"node{number}"
    _batch(
        f"link add {port} type veth peer name {_BRIDGE} netns {pid}",
        f"link set {port} master {_BRIDGE} up",
        inside=first,
    )
    _batch(*_settle(network, number), inside=pid)


def route_pods(network: Network, numbers: Iterable[int], number: int, pid: int) -> None:
    """Tell a node where the pods of the others are."""
    others = [other for other in numbers if other != number]
    _batch(
        *(f"route replace {network.pods_of(other)} via {network.node(other)}" for other in others),
        inside=pid,
    )


def leave_host(owner: str) -> None:
    """Take the link of an owner off the host; routes and the other end go with it.

    The kernel does so too when the namespace of the other end is gone, but only after a while.
    """
    for alias in Path("/sys/class/net").glob("*/ifalias"):
        try:
            is_ours = alias.read_text().strip() == owner
        except OSError:  # it went while it was looked at
            continue
        if is_ours:
            link = alias.parent.name
            subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)


def _settle(network: Network, number: int) -> list[str]:
    return [
        "link set lo up",
        f"addr add {network.node(number)}/24 dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
        # What the node itself sends to a Service needs some route before its address is replaced.
        f"route add {network.services} dev {_BRIDGE} src {network.node(number)}",
    ]


def _batch(*commands: str, inside: int | None = None) -> None:
    enter = [] if inside is None else ["nsenter", f"--net=/proc/{inside}/ns/net"]
    done = subprocess.run(
        [*enter, "ip", "-batch", "-"],
        input="\n".join(commands) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ClusterError(f"the network cannot be set up: {done.stderr.strip().splitlines()[0]}")
