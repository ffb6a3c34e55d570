# SPDX-License-Identifier: Apache-2.0
"""A small internet around the runtime's own network, and the ways to switch its rules off."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address

from pyroute2 import IPRoute, NFCTSocket  # type: ignore[import-untyped]

from opensandbox_server.runtimes.oci.launcher import syscalls
from tests.harness.runtime import Box, Home, in_namespace, own_network

PUBLIC, METADATA, PRIVATE = "203.0.113.2", "169.254.169.254", "10.99.0.2"
RESOLVER = "168.63.129.16"
"""Of Azure: a public address that answers for names on one port and hands out secrets on others."""


@contextlib.contextmanager
def made_outside(network: int) -> Iterator[int]:
    """Make a network namespace one hop away: public, private and metadata addresses."""
    with own_network() as netns:
        syscalls.setns(network, syscalls.CLONE_NEWNET)
        with IPRoute() as near:
            near.link(
                "add", ifname="osbout", kind="veth", peer={"ifname": "up", "net_ns_fd": netns}
            )
            link = near.link_lookup(ifname="osbout")[0]
            near.addr("add", index=link, address="203.0.113.1", prefixlen=24)
            near.link("set", index=link, state="up")
            in_namespace(netns, _furnish_outside)
            near.route("add", dst="default", gateway=PUBLIC)
            yield netns
            near.link("del", index=link)


def _furnish_outside() -> None:
    with IPRoute() as far:
        link = far.link_lookup(ifname="up")[0]
        far.addr("add", index=link, address=PUBLIC, prefixlen=24)
        for address in (METADATA, PRIVATE, RESOLVER):
            far.addr("add", index=link, address=address, prefixlen=32)
        far.link("set", index=link, state="up")


def connect(box: Box, address: str, port: int) -> str:
    """Return what an address says, or how the connection failed."""
    return box.python(
        "import socket\n"
        f"try: print(socket.create_connection(({address!r}, {port}), 1.5).recv(100).decode())\n"
        "except OSError as fault: print(type(fault).__name__)"
    ).output


@contextlib.contextmanager
def accepting(home: Home, chain: str, family: str = "inet") -> Iterator[None]:
    """Switch one chain of our rules off."""
    nft = ["nft", "-a", "-e", "insert", "rule", family, home.bridge, chain, "accept"]
    said = subprocess.run(nft, check=True, capture_output=True, text=True).stdout
    handle = said.rpartition("handle ")[2].split()[0]
    try:
        yield
    finally:
        remove = ["nft", "delete", "rule", family, home.bridge, chain, "handle", handle]
        subprocess.run(remove, check=True)


@contextlib.contextmanager
def unisolated(home: Home) -> Iterator[None]:
    """Switch the isolation of the bridge's ports off."""
    with IPRoute() as netlink:
        bridge = netlink.link_lookup(ifname=home.bridge)[0]
        ports = [link["index"] for link in netlink.get_links(master=bridge)]
        for port in ports:
            netlink.brport("set", index=port, isolated=0)
        yield
        for port in ports:
            netlink.brport("set", index=port, isolated=1)


def serve(box: Box) -> None:
    """Answer on port 7777 of a sandbox, by IPv4 and IPv6."""
    program = (
        "import socket, os\n"
        "listener = socket.create_server(('::', 7777), family=10, dualstack_ipv6=True)\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid(); null = os.open('/dev/null', os.O_RDWR)\n"
        "for n in (0, 1, 2): os.dup2(null, n)\n"
        "while True: listener.accept()[0].sendall(b'hello')"
    )
    assert box.python(program).status == 0


def with_ipv6(home: Home) -> Box:
    """Start a sandbox that has switched IPv6 on again, and asks for neighbours."""
    box = home.start(without=("capabilities", "paths"))
    switch = "ip link set eth0 arp on; echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6"
    # Until the kernel knows that nobody else has an address (flag 40) it cannot be used.
    settled = "until grep -q ' 20 80 *eth0' /proc/net/if_inet6; do sleep 0.1; done"
    switched = box.sh(f"{switch} && {settled}")
    assert switched.status == 0, switched.output
    return box


def learned(home: Home) -> dict[str, str]:
    """Return the hardware address that the host knows for each address of a sandbox."""
    with IPRoute() as netlink:
        bridge = netlink.link_lookup(ifname=home.bridge)[0]
        return {
            entry.get_attr("NDA_DST"): entry.get_attr("NDA_LLADDR")
            for entry in netlink.get_neighbours(family=2, ifindex=bridge)
            if entry.get_attr("NDA_LLADDR")
        }


def forget(home: Home, *addresses: str) -> None:
    """Make the host forget the hardware addresses it knows for some addresses."""
    with IPRoute() as netlink:
        bridge = netlink.link_lookup(ifname=home.bridge)[0]
        for address in set(addresses) & set(learned(home)):
            netlink.neigh("del", dst=address, ifindex=bridge)


def address_of(box: Box) -> str:
    """Return the address a sandbox was given."""
    return box.sh("sed -n 's/\\t.*//p' /etc/hosts | tail -1").output


def hardware_of(box: Box) -> str:
    """Return the hardware address of a sandbox's link."""
    return box.sh("cat /sys/class/net/eth0/address").output


def tracked(address: IPv4Address) -> int:
    """Count the connections that began at an address."""
    with NFCTSocket() as table:
        begun = [
            entry.get_attr("CTA_TUPLE_ORIG").get_attr("CTA_TUPLE_IP").get_attr("CTA_IP_V4_SRC")
            for entry in table.dump()
        ]
    return begun.count(str(address))
