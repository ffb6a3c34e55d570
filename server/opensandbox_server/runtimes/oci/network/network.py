# SPDX-License-Identifier: Apache-2.0
"""The bridge of this server, the links of its sandboxes, and what may pass between them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from pyroute2 import IPRoute  # type: ignore[import-untyped]
from pyroute2.netlink.exceptions import NetlinkError  # type: ignore[import-untyped]

from opensandbox_server.host.id_claims import PLACE, Claim, claim_ids
from opensandbox_server.runtimes.oci.bounds import SHARE_OF_ALL
from opensandbox_server.runtimes.oci.launcher import syscalls
from opensandbox_server.runtimes.oci.launcher.namespaces import IDS_PER_RANGE
from opensandbox_server.runtimes.oci.network import conntrack, legacy_firewall, rules
from opensandbox_server.runtimes.oci.network.forwarding import allow_forwarding, leave_forwarding
from opensandbox_server.runtimes.oci.network.interfaces import (
    add_default_route,
    forget_neighbour,
    raise_interface,
    set_address,
    set_neighbour,
    wait_for_carrier,
)
from opensandbox_server.runtimes.oci.network.nft import NetworkFault, nft
from opensandbox_server.runtimes.oci.network.resolver import host_nameserver

BLOCKS = 20
"""Servers on one host; each takes one bridge, one part of the subnet and one part of the ids."""
BRIDGES = [f"osb{number}" for number in range(BLOCKS)]
SLOTS_PER_BLOCK = 2048
_GATEWAY_INDEX = 1
"""What a slot's number is to a slot, for the bridge."""
_FIRST_RANGE = 16384
"""Ranges of 65536 ids below it are left to people, subuid files and other programs."""


@dataclass(frozen=True, slots=True)
class Block:
    """One server's share of the host: a bridge, addresses and id ranges. Pure arithmetic."""

    number: int
    everything: IPv4Network

    @property
    def bridge(self) -> str:
        """The name of the bridge."""
        return BRIDGES[self.number]

    @property
    def subnet(self) -> IPv4Network:
        """The addresses of this server's sandboxes."""
        first = int(self.everything.network_address) + self.number * SLOTS_PER_BLOCK
        return IPv4Network((first, 32 - SLOTS_PER_BLOCK.bit_length() + 1))

    @property
    def gateway(self) -> IPv4Address:
        """The address of the bridge."""
        return self.subnet[_GATEWAY_INDEX]

    @property
    def indexes(self) -> range:
        """The slots there can be; slot n has the n-th address."""
        return range(2, SLOTS_PER_BLOCK - 1)

    def address(self, index: int) -> IPv4Address:
        """The address of a slot."""
        return self.subnet[index]

    def first_id(self, index: int) -> int:
        """The user id on the host that is root in a slot."""
        return (_FIRST_RANGE + self.number * SLOTS_PER_BLOCK + index) * IDS_PER_RANGE

    def slot_of(self, user_id: int) -> int | None:
        """The slot that a user id on the host belongs to; None for one of somebody else."""
        return (user_id - self.first_id(0)) // IDS_PER_RANGE if user_id in self.ids else None

    @property
    def ids(self) -> range:
        """All user ids of this server's sandboxes."""
        return range(self.first_id(0), self.first_id(SLOTS_PER_BLOCK))

    def link(self, index: int) -> str:
        """The host's end of a slot's link."""
        return f"{self.bridge}v{index}"

    def hardware(self, index: int) -> str:
        """The hardware address of a slot: one that nobody sold."""
        return f"02:6f:73:{self.number:02x}:{index >> 8:02x}:{index & 255:02x}"


class Network:
    """Netlink and nft for one block. Usable from any thread."""

    def __init__(self, block: Block, options: rules.NetworkOptions) -> None:
        """Take what claim_block found."""
        self.block = block
        of_all = options.all_connections or conntrack.most() // 2
        self._reach = replace(
            options,
            nameserver=options.nameserver or host_nameserver(),
            connections=max(1, min(options.connections, of_all // SHARE_OF_ALL)),
            all_connections=of_all,
        )
        self._is_full = self._is_guarding = False
        self._own = threading.local()
        self._bridge_index = 0

    def open(self) -> None:
        """Raise the bridge, write the rules, let packets be forwarded."""
        netlink = self._netlink()
        self._bridge_index = _link_index(netlink, self.block.bridge)
        with _ignoring(errno.EEXIST):
            netlink.addr(
                "add",
                index=self._bridge_index,
                address=str(self.block.gateway),
                prefixlen=self.block.subnet.prefixlen,
            )
        # Else the bridge takes the lowest address of its links, another one as they come and go,
        # and sandboxes go on sending to the former for seconds.
        gateway = self.block.hardware(_GATEWAY_INDEX)
        netlink.link("set", index=self._bridge_index, address=gateway, state="up")
        self._note_neighbours()
        self._write_rules()
        self._is_guarding = allow_forwarding(BRIDGES)
        self.pass_firewalls()

    def _note_neighbours(self) -> None:
        """Know those who are there already: setting a hardware address forgets all of them."""
        block = self.block
        present = {name for _, name in socket.if_nameindex()}
        for index in block.indexes:
            if block.link(index) in present:
                set_neighbour(block.bridge, block.address(index), block.hardware(index))

    def connect(self, index: int, netns: int) -> None:
        """Give the network namespace of a slot an interface with an address and a way out.

        The kernel has one table of neighbours for the whole machine, and one that is asked for and
        does not answer cannot be dropped from it. Both ends know each other's hardware address
        instead, so that nobody asks: with SO_BINDTODEVICE and MSG_DONTROUTE anybody could, for any
        address, whatever the routes say.
        """
        block, netlink = self.block, self._netlink()
        name = block.link(index)
        self.disconnect(index)  # the kernel may still be removing that of a killed launcher
        self.forget_connections(index)
        peer = {"ifname": "eth0", "net_ns_fd": netns, "address": block.hardware(index)}
        netlink.link("add", ifname=name, kind="veth", peer=peer)
        host_end = socket.if_nametoindex(name)
        netlink.link("set", index=host_end, master=self._bridge_index, state="up")
        netlink.brport("set", index=host_end, isolated=1)
        set_neighbour(block.bridge, block.address(index), block.hardware(index))
        with _inside(netns):
            _switch_ipv6_off("eth0")
            set_address("eth0", block.address(index), block.gateway)
            raise_interface("eth0", asks_for_neighbours=False)
            set_neighbour("eth0", block.gateway, block.hardware(_GATEWAY_INDEX))
            add_default_route(block.gateway)
        wait_for_carrier(name)

    def disconnect(self, index: int) -> None:
        """Remove a slot's link; repeats safely."""
        forget_neighbour(self.block.bridge, self.block.address(index))
        with contextlib.suppress(OSError):
            link = socket.if_nametoindex(self.block.link(index))
            with _ignoring(errno.ENODEV):
                self._netlink().link("del", index=link)

    def forget_connections(self, index: int) -> None:
        """Track none of a sandbox any more: they use up the host's table for days.

        And nothing that was meant for the former sandbox of an address reaches the next.
        """
        try:
            conntrack.forget(self.block.address(index))
        except OSError as fault:
            raise NetworkFault(f"{fault}; modprobe nf_conntrack_netlink") from fault

    def keep_up(self) -> None:
        """Follow what others change on the host; to be called every few seconds."""
        questions = rules.presence(self.block.bridge)
        if not all(nft(question, is_allowed_to_fail=True) for question in questions):
            self._write_rules()  # who loads a firewall again often removes everybody's first
        self._watch_connections()
        self._is_guarding = allow_forwarding(BRIDGES, was_guarded=self._is_guarding)
        self.pass_firewalls()

    def _watch_connections(self) -> None:
        """Leave the host a part of its table of connections.

        The kernel cannot count those of all sandboxes together fast enough. So their common pace is
        such that half a minute passes before they could track as many again as they may.
        """
        is_full = conntrack.count() > self._reach.all_connections
        if is_full != self._is_full:
            nft(rules.fullness(self.block.bridge, is_full=is_full))
            self._is_full = is_full

    def pass_firewalls(self) -> None:
        """Get our packets through a FORWARD chain that drops by default, as Docker makes it."""
        for chain in ("DOCKER-USER", "FORWARD"):
            found = nft(f"list chain ip filter {chain}\n", is_allowed_to_fail=True)
            wanted = "policy drop" in found or chain == "DOCKER-USER"
            if found and wanted and f'comment "{self.block.bridge}"' not in found:
                nft(rules.admission(chain, self.block.bridge))
        try:
            legacy_firewall.admit(self.block.bridge)
        except legacy_firewall.LegacyFirewallFault as fault:
            raise NetworkFault(str(fault)) from fault

    def close(self) -> None:
        """Take everything away, when no sandbox needs it any more."""
        nft(rules.removal(self.block.bridge))
        self._leave_firewalls()
        netlink = self._netlink()
        for link in netlink.link_lookup(ifname=self.block.bridge):
            netlink.link("del", index=link)
        leave_forwarding()
        netlink.close()
        del self._own.netlink

    def _write_rules(self) -> None:
        block = self.block
        nameserver = self._reach.nameserver
        if nameserver and IPv4Address(nameserver).is_loopback:
            _set_sysctl(f"net/ipv4/conf/{block.bridge}/route_localnet", "1")
        nft(rules.ruleset(block.bridge, block.subnet, str(block.gateway), self._reach))
        self._is_full = False
        links = ((block.link(n), block.hardware(n), block.address(n)) for n in block.indexes)
        nft(rules.bindings(block.bridge, links))

    def _leave_firewalls(self) -> None:
        legacy_firewall.leave(self.block.bridge)
        for chain in ("DOCKER-USER", "FORWARD"):
            found = nft(
                f"list chain ip filter {chain}\n", is_allowed_to_fail=True, with_handles=True
            )
            for line in found.splitlines():
                if f'comment "{self.block.bridge}"' in line:
                    handle = line.rpartition("handle ")[2].strip()
                    nft(f"delete rule ip filter {chain} handle {handle}\n")

    def _netlink(self) -> IPRoute:
        if not hasattr(self._own, "netlink"):
            self._own.netlink = IPRoute()
        netlink: IPRoute = self._own.netlink
        return netlink


def claim_block(
    record: Path, owner: str, subnet: IPv4Network, claims: Path = PLACE
) -> tuple[Block, Claim]:
    """Take the block this server had before, or one nobody has.

    The bridge claims it in this network, the second result on this host.
    """
    with IPRoute() as netlink:
        for number in _candidates(record):
            block = Block(number, subnet)
            ids = claim_ids(number, block.ids, owner, claims)
            if ids is None:
                continue
            if not _claim(netlink, block, owner):
                ids.forget()
                ids.close()
                continue
            fresh = record.with_suffix(".new")
            fresh.write_text(json.dumps({"block": number}))
            fresh.replace(record)
            return block, ids
    raise NetworkFault(
        f"all {BLOCKS} parts of {subnet} are in use by other servers or networks here; "
        "choose another range with oci.subnet"
    )


def _candidates(record: Path) -> list[int]:
    numbers = list(range(BLOCKS))
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
        former = int(json.loads(record.read_text())["block"])
        numbers.remove(former)
        numbers.insert(0, former)
    return numbers


def _claim(netlink: IPRoute, block: Block, owner: str) -> bool:
    try:
        netlink.link("add", ifname=block.bridge, kind="bridge")
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise NetworkFault(f"cannot make a bridge: {error}") from error
        former = _alias(netlink, block.bridge)
        if former != owner and not _is_abandoned(netlink, block.bridge, former):
            return False
    else:
        if _is_used(netlink, block.subnet):
            netlink.link("del", index=_link_index(netlink, block.bridge))
            return False
    netlink.link("set", index=_link_index(netlink, block.bridge), ifalias=owner)
    return True


def _is_abandoned(netlink: IPRoute, bridge: str, owner: str | None) -> bool:
    """Say whether a bridge outlived its data directory; that of a running server has links."""
    if not owner or not owner.startswith("/") or Path(owner).exists():
        return False
    return not list(netlink.get_links(master=_link_index(netlink, bridge)))


def _alias(netlink: IPRoute, name: str) -> str | None:
    for link in netlink.get_links(ifname=name):
        alias: str | None = link.get_attr("IFLA_IFALIAS")
        return alias
    return None


def _is_used(netlink: IPRoute, subnet: IPv4Network) -> bool:
    for route in netlink.get_routes(family=2):
        destination = route.get_attr("RTA_DST")
        if destination and subnet.overlaps(IPv4Network((destination, route["dst_len"]))):
            return True
    return False


def _link_index(netlink: IPRoute, name: str) -> int:
    found = netlink.link_lookup(ifname=name)
    if not found:
        raise NetworkFault(f"the interface {name} is gone; restart the server")
    return int(found[0])


def _set_sysctl(name: str, value: str) -> None:
    file = Path("/proc/sys") / name
    if file.read_text().strip() != value:
        file.write_text(value)


def _switch_ipv6_off(interface: str) -> None:
    """Leave IPv6 to the loopback interface; a kernel may be without it."""
    with contextlib.suppress(FileNotFoundError):
        _set_sysctl(f"net/ipv6/conf/{interface}/disable_ipv6", "1")


@contextlib.contextmanager
def _inside(netns: int) -> Iterator[None]:
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        syscalls.setns(netns, syscalls.CLONE_NEWNET)
        try:
            yield
        finally:
            syscalls.setns(own, syscalls.CLONE_NEWNET)
    finally:
        os.close(own)


@contextlib.contextmanager
def _ignoring(number: int) -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        if error.code != number:
            raise
