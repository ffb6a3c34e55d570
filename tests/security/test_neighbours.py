# SPDX-License-Identifier: Apache-2.0
"""The table of neighbours is one for the machine: a sandbox has no way to fill it.

An entry that waits for an answer cannot be dropped by the kernel; one that nobody was asked for
goes as soon as its room is needed. Only the former are in /proc/net/arp.
"""

from __future__ import annotations

from pyroute2 import IPRoute  # type: ignore[import-untyped]

from tests.harness.runtime import Box, Home, listening
from tests.security.internet import PUBLIC, address_of, connect, forget, learned, with_ipv6

SENDS = 64
WRITTEN_DOWN, NOBODY_ASKED = 0x80, 0x40
FLOOD = """
import socket, ipaddress
gateway = ipaddress.ip_address(open("/etc/resolv.conf").read().split()[1])
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if {bound}:
    sender.setsockopt(socket.SOL_SOCKET, 25, b"eth0")  # SO_BINDTODEVICE
for n in range(100, 100 + {count}):
    sender.sendto(b"x", socket.MSG_DONTROUTE if {bound} else 0, (str(gateway + n), 9))
"""
"""Bound and without routes, every address counts as one on the link, whatever the routes say."""
SEND_IPV6 = """
import socket
sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sender.sendto(b"x", ("::1", 9))
for group in ("fe80::1", "ff02::1"):
    try: print(sender.sendto(b"x", (group, 9, 0, socket.if_nametoindex("eth0"))))
    except OSError as fault: print(fault.strerror)
"""


def flood(box: Box, *, bound: bool, count: int = SENDS) -> None:
    """Send to many addresses next to the bridge's."""
    assert (said := box.python(FLOOD.format(bound=bound, count=count))).status == 0, said.output


def asked_for(box: Box) -> int:
    """Count the neighbours in a sandbox's network that the kernel had to ask for."""
    return len(box.sh("tail -n +2 /proc/net/arp | grep -v ' 0x6 '").output.splitlines())


def test_packets_to_many_addresses_make_the_kernel_ask_for_nobody(home: Home) -> None:
    weak, strong = home.start(without=("capabilities",)), home.start()
    weak.sh("ip link set eth0 arp on")
    flood(weak, bound=True, count=8)
    assert asked_for(weak) == 8
    for bound in (False, True):
        flood(strong, bound=bound)
        assert asked_for(strong) == 0


def test_the_host_asks_for_nobody_either(home: Home) -> None:
    box = home.start()
    flood(box, bound=False)
    with IPRoute() as netlink:
        bridge = netlink.link_lookup(ifname=home.bridge)[0]
        links = len(list(netlink.get_links(master=bridge)))
        known = list(netlink.get_neighbours(family=2, ifindex=bridge))
    asked = [entry for entry in known if entry["state"] not in (WRITTEN_DOWN, NOBODY_ASKED)]
    assert asked == []
    assert len(known) <= links + 2  # and the groups that the bridge itself is in
    assert address_of(box) in learned(home)


def test_nothing_is_sent_by_ipv6_on_the_link(home: Home) -> None:
    assert with_ipv6(home).python(SEND_IPV6).output.split() == ["1", "1"]
    for box in (home.start(), home.start(without=("capabilities",))):
        faults = set(box.python(SEND_IPV6).output.splitlines())
        assert faults <= {"Cannot assign requested address", "Network is unreachable"}


def test_sandboxes_stay_connected_over_a_restart_those_of_former_releases_too(
    home: Home, outside: int
) -> None:
    box, former = home.start(), home.start(without=("capabilities",))
    make_as_before(former)
    with listening(outside, PUBLIC) as port:
        home.run(home.runtime.close())
        forget(home, address_of(former))  # former releases wrote none down
        assert connect(former, PUBLIC, port) == "hello"
        home.run(home.runtime.prepare())
        for found in (box, former):
            assert connect(found, PUBLIC, port) == "hello"


def make_as_before(box: Box) -> None:
    """Give a sandbox the whole subnet on its link, and neighbours that it asks for."""
    change = (
        "own=$(sed -n 's/\\t.*//p' /etc/hosts | tail -1); "
        "gateway=$(sed -n 's/nameserver //p' /etc/resolv.conf); "
        "ip link set eth0 arp on; ip addr flush dev eth0; ip neigh flush dev eth0 nud permanent; "
        "ip addr add $own/21 dev eth0; ip route add default via $gateway"
    )
    assert (said := box.sh(change)).status == 0, said.output
