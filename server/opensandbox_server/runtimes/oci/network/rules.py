# SPDX-License-Identifier: Apache-2.0
"""The packet filter of one bridge, as text for `nft`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

_GUARD = "opensandbox"
NEVER_OUTSIDE = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
"""Private, shared, loopback, link-local (metadata), benchmark, multicast and reserved ranges."""

_PACE_MINUTES = 1
"""How long the pace of a sandbox is remembered: longer than it takes to have all it may again."""
METADATA = (
    "100.100.100.200/32",
    "168.63.129.16/32",
    "169.254.0.23/32",
    "169.254.42.42/32",
    "169.254.169.254/32",
    "169.254.170.2/32",
    "169.254.170.23/32",
    "192.0.0.192/32",
)
"""Where clouds hand out a machine's secrets; one is public, and an allowed range may have others.

Of Alibaba, Azure (WireServer), Tencent, Scaleway, nearly all, ECS, EKS and Oracle.
"""


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """What sandboxes may reach, and how much of it at once."""

    nameserver: str | None = None
    """Who is asked for names."""
    allow: Sequence[str] = ()
    """Ranges that are reached in spite of the rules."""
    deny: Sequence[str] = ()
    """Ranges that are not, beside those that never are; the narrower range of both decides."""
    connections: int = 4096
    """How many a sandbox may have open; it opens so many at once, then a few dozen a second.

    The kernel goes on tracking a closed connection for two minutes and no longer counts it as open:
    only the pace bounds those.
    """
    all_connections: int = 0
    """How many the host may track, others' too, before no sandbox opens another; 0 is half."""

    @property
    def pace(self) -> int:
        """How many connections a sandbox opens in a second, for long."""
        return max(1, self.connections // 32)

    @property
    def common_pace(self) -> int:
        """How many all sandboxes open in a second; see Network.keep_up."""
        return max(100, self.all_connections // 30)


def ruleset(bridge: str, subnet: IPv4Network, gateway: str, options: NetworkOptions) -> str:
    """Return a table that replaces the former one of this bridge.

    Our chains come before those of a firewall or a Docker engine: what is dropped here stays
    dropped, whatever they say. What is accepted here they still see. A destination that somebody
    else translated is nothing we can judge: it is dropped, and only our own resolver is not.
    """
    denied = ", ".join(NEVER_OUTSIDE)
    question = _question(gateway, options.nameserver)
    chosen = "\n    ".join(_chosen(options))
    return f"""
table inet {bridge}
delete table inet {bridge}
table inet {bridge} {{
{_opening(subnet, options)}  chain prerouting {{
    type filter hook prerouting priority -150; policy accept;
    iifname "{bridge}" meta nfproto ipv6 drop
    iifname "{bridge}" ip saddr != {subnet} drop
    iifname "{bridge}" ip daddr {subnet} ip daddr != {gateway} drop
  }}
  chain forward {{
    type filter hook forward priority -10; policy accept;
    iifname "{bridge}" jump outbound
    oifname "{bridge}" ct state established,related accept
    oifname "{bridge}" drop
  }}
  chain outbound {{
    oifname "{bridge}" drop
    {question}
    ct status dnat drop
    {chosen}
    ip daddr {{ {denied} }} drop
    goto opening
  }}
  chain input {{
    type filter hook input priority -10; policy accept;
    iifname "{bridge}" jump inbound
  }}
  chain inbound {{
    {question}
    ct status dnat drop
    ct state established,related accept
    icmp type echo-request ip daddr {gateway} goto opening
    drop
  }}
  chain source {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {subnet} oifname != "{bridge}" masquerade
  }}
{_resolver(bridge, gateway, options.nameserver)}}}
"""


def _chosen(options: NetworkOptions) -> Iterator[str]:
    """Return rules for what is named, the narrowest first; what is named twice is allowed."""
    verdicts = {IPv4Network(text): "drop" for text in (*METADATA, *options.deny)}
    verdicts |= {IPv4Network(text): "goto opening" for text in options.allow}
    for length in sorted({network.prefixlen for network in verdicts}, reverse=True):
        for verdict in ("goto opening", "drop"):
            named = [n for n, v in verdicts.items() if (n.prefixlen, v) == (length, verdict)]
            if named:
                yield f"ip daddr {{ {', '.join(map(str, named))} }} {verdict}"


def _question(gateway: str, nameserver: str | None) -> str:
    """Return the rule that accepts what our own chain made of a question for a name."""
    if nameserver is None:
        return ""
    asked = f"ct status dnat ct original ip daddr {gateway} ct original proto-dst 53"
    return f"meta l4proto {{ tcp, udp }} {asked} ip daddr {nameserver} th dport 53 goto opening"


def _opening(subnet: IPv4Network, options: NetworkOptions) -> str:
    """Return the chain that everything passes which is not dropped elsewhere.

    The kernel tracks connections in one table for the whole machine. A packet that is dropped
    here is none: only what is let through is tracked.
    """
    one = f"{options.pace}/second burst {options.connections} packets"
    everyone = f"{options.common_pace}/second burst {options.common_pace} packets"
    addresses = f"type ipv4_addr; size {subnet.num_addresses};"
    return f"""  set paces {{ {addresses} flags dynamic,timeout; timeout {_PACE_MINUTES}m; }}
  set counts {{ {addresses} flags dynamic; }}
  chain full {{
  }}
  chain opening {{
    ct state != new accept
    jump full
    update @paces {{ ip saddr limit rate over {one} }} drop
    add @counts {{ ip saddr ct count over {options.connections} }} drop
    limit rate over {everyone} drop
    accept
  }}
"""


def _resolver(bridge: str, gateway: str, nameserver: str | None) -> str:
    """Return the chain that passes questions on, before others who publish that port see them."""
    if nameserver is None:
        return ""
    return f"""  chain resolver {{
    type nat hook prerouting priority dstnat - 10; policy accept;
    iifname "{bridge}" ip daddr {gateway} udp dport 53 dnat ip to {nameserver}:53
    iifname "{bridge}" ip daddr {gateway} tcp dport 53 dnat ip to {nameserver}:53
  }}
"""


def bindings(bridge: str, links: Iterable[tuple[str, str, IPv4Address]]) -> str:
    """Return a table that ties each link of the bridge to one hardware and one IPv4 address.

    A packet or an answer to "who has this address" with any other sender, and everything that is
    neither IPv4 nor ARP, is dropped before the bridge learns from it. All links there can be are
    listed: nothing is to be done when one is made.
    """
    listed = ", ".join(f'"{link}" . {hardware} . {address}' for link, hardware, address in links)
    return f"""
table bridge {bridge}
delete table bridge {bridge}
table bridge {bridge} {{
  set senders {{
    type ifname . ether_addr . ipv4_addr
    elements = {{ {listed} }}
  }}
  chain prerouting {{
    type filter hook prerouting priority -300; policy accept;
    iifname "{bridge}v*" goto bound
  }}
  chain bound {{
    iifname . ether saddr . ip saddr @senders accept
    iifname . ether saddr . arp saddr ip @senders accept
    drop
  }}
}}
"""


def presence(bridge: str) -> tuple[str, str]:
    """Return the questions whether our tables are there; each fails when its table is not.

    To be asked one by one: nft 1.0.6 finds none of two tables of different families at once.
    """
    return f"list chain inet {bridge} outbound\n", f"list chain bridge {bridge} bound\n"


def fullness(bridge: str, *, is_full: bool) -> str:
    """Return what lets sandboxes open connections, or not; those they have go on."""
    return f"flush chain inet {bridge} full\n" + f"add rule inet {bridge} full drop\n" * is_full


def removal(bridge: str) -> str:
    """Return what takes the tables away; repeats safely."""
    return "".join(
        f"table {family} {bridge}\ndelete table {family} {bridge}\n"
        for family in ("inet", "bridge")
    )


def guarded(bridges: Sequence[str]) -> str:
    """Return a table for all servers of a host: nothing is forwarded past our bridges."""
    ours = ", ".join(f'"{bridge}"' for bridge in bridges)
    return f"""
table inet {_GUARD} {{
  chain forward {{
    type filter hook forward priority -20; policy accept;
    meta nfproto ipv4 iifname != {{ {ours} }} oifname != {{ {ours} }} drop
  }}
}}
"""


def guard_listed() -> str:
    """Return the question whether that table is there."""
    return f"list table inet {_GUARD}\n"


def unguarded() -> str:
    """Return what takes it away."""
    return f"delete table inet {_GUARD}\n"


def admission(chain: str, bridge: str) -> str:
    """Return rules that let our packets through a chain of somebody else whose policy is drop."""
    return (
        f'insert rule ip filter {chain} iifname "{bridge}" counter accept comment "{bridge}"\n'
        f'insert rule ip filter {chain} oifname "{bridge}" ct state established,related'
        f' counter accept comment "{bridge}"\n'
    )
