# SPDX-License-Identifier: Apache-2.0
"""The packet filter as text, the arithmetic of addresses, and a Docker engine's firewall."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from pyroute2 import IPRoute  # type: ignore[import-untyped]

from opensandbox_server.host.id_claims import INGRESS_IDS
from opensandbox_server.runtimes.oci.network.network import BLOCKS, Block, Network, claim_block
from opensandbox_server.runtimes.oci.network.resolver import chosen_nameserver
from opensandbox_server.runtimes.oci.network.rules import NEVER_OUTSIDE, NetworkOptions, ruleset
from opensandbox_server.runtimes.oci.options import read_options
from tests.harness.runtime import Home, listening, opened_home
from tests.security.internet import PUBLIC, connect, made_outside

SUBNET = IPv4Network("10.200.0.0/16")
LOWEST = "02:00:00:00:00:01"


def test_no_two_servers_share_addresses_or_ids() -> None:
    blocks = [Block(number, SUBNET) for number in range(BLOCKS)]
    for one, other in itertools.pairwise(blocks):
        assert not one.subnet.overlaps(other.subnet)
        assert one.first_id(one.indexes[-1]) + 65536 <= other.first_id(other.indexes[0])
        assert other.subnet.subnet_of(SUBNET)
    last = blocks[-1]
    assert last.first_id(last.indexes[-1]) + 65536 < 2**32 - 65536
    assert INGRESS_IDS[-1] < blocks[0].ids[0], "ingress is none of them"


def test_a_slot_has_neither_the_gateways_address_nor_the_broadcast() -> None:
    block = Block(3, SUBNET)
    addresses = {block.address(index) for index in block.indexes}
    assert block.gateway not in addresses
    assert block.subnet.broadcast_address not in addresses
    assert len(addresses) == len(block.indexes)
    assert all(len(block.link(index)) < 16 for index in block.indexes)


def test_metadata_and_private_ranges_are_among_the_dropped() -> None:
    dropped = [IPv4Network(text) for text in NEVER_OUTSIDE]
    for address in ("169.254.169.254", "10.0.0.1", "192.168.1.1", "172.31.0.1", "100.100.100.200"):
        assert any(IPv4Address(address) in network for network in dropped)


def test_what_an_operator_allows_comes_before_the_drop() -> None:
    text = ruleset("osb0", SUBNET, "10.200.0.1", NetworkOptions("192.0.2.53", ["10.9.0.0/16"]))
    assert text.index("10.9.0.0/16 } goto opening") < text.index("169.254.0.0/16")
    assert "dnat ip to 192.0.2.53:53" in text
    assert "dnat" not in ruleset("osb0", SUBNET, "10.200.0.1", NetworkOptions()).replace(
        "status dnat", ""
    )


@pytest.mark.parametrize(
    ("allow", "deny", "address", "verdict"),
    [
        ([], [], "8.8.8.8", "goto opening"),
        ([], ["8.8.8.0/24"], "8.8.8.8", "drop"),
        (["8.8.8.8/32"], ["8.8.8.0/24"], "8.8.8.8", "goto opening"),
        (["10.0.0.0/8"], ["10.1.2.0/24"], "10.1.2.3", "drop"),
        (["10.0.0.0/8"], ["10.1.2.0/24"], "10.1.3.3", "goto opening"),
        (["0.0.0.0/0"], [], "192.168.1.1", "goto opening"),
        (["0.0.0.0/0"], [], "168.63.129.16", "drop"),
        (["169.254.0.0/16"], [], "169.254.169.254", "drop"),
        (["169.254.0.0/16"], [], "169.254.1.1", "goto opening"),
        (["169.254.169.254/32"], [], "169.254.169.254", "goto opening"),
    ],
)
def test_the_narrower_range_decides_and_metadata_is_named_or_closed(
    allow: list[str], deny: list[str], address: str, verdict: str
) -> None:
    text = ruleset("osb0", SUBNET, "10.200.0.1", NetworkOptions(allow=allow, deny=deny))
    judged = re.findall(r"ip daddr \{ ([^}]*) \} (drop|goto opening)", text)
    for ranges, said in judged:
        if any(IPv4Address(address) in IPv4Network(one) for one in ranges.split(", ")):
            assert said == verdict
            return
    assert verdict == "goto opening"


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"deny": ["10.1.2.3/8"]}, "oci.deny: 10.1.2.3/8 has host bits set"),
        ({"deny": ["fd00::/8"]}, "oci.deny: Expected 4 octets"),
        ({"deny": "10.0.0.0/8"}, "oci.deny: must be a list"),
        ({"allow": [1]}, "oci.allow: must be a list"),
        ({"allow": ["10.0.0.0/8"], "deny": ["10.0.0.0/8"]}, "oci.deny: 10.0.0.0/8 is in oci.allow"),
    ],
)
def test_ranges_that_cannot_be_meant_are_refused(table: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_options(table)


def test_the_first_ipv4_name_server_is_asked() -> None:
    assert chosen_nameserver("search x\nnameserver fd00::1\nnameserver 192.0.2.1\n") == "192.0.2.1"
    assert chosen_nameserver("nameserver ::1\n") is None


def nft(text: str) -> str:
    done = subprocess.run(
        ["nft", "-f", "-"], input=text, text=True, capture_output=True, check=True
    )
    return done.stdout


DOCKER = """
table ip filter {
  chain FORWARD { type filter hook forward priority 0; policy drop; %s }
  %s
}
"""
LEGACY = """
iptables-legacy --policy FORWARD DROP
iptables-legacy --new DOCKER-USER
iptables-legacy --append DOCKER-USER --jump RETURN
iptables-legacy --append FORWARD --jump DOCKER-USER
"""
ENGINES = {
    "with DOCKER-USER": ("nft", DOCKER % ("jump DOCKER-USER;", "chain DOCKER-USER { return; }")),
    "without": ("nft", DOCKER % ("counter;", "")),
    "legacy": ("iptables-legacy", LEGACY),
}


def drop_forwarded(program: str, text: str) -> None:
    """Do to the firewall what a Docker engine does when it starts; ours is not in it then."""
    if program == "nft":
        nft(f"table ip filter\ndelete table ip filter\n{text}")
        return
    empty = "iptables-legacy --flush; iptables-legacy --delete-chain; iptables-legacy --zero"
    subprocess.run(["sh", "-euc", f"{empty}\n{text}"], check=True)


def firewall(program: str) -> str:
    """Return all of it, without how many packets it saw."""
    command = {"nft": "nft list table ip filter", "iptables-legacy": "iptables-legacy -S"}[program]
    done = subprocess.run(command.split(), capture_output=True, text=True, check=True)
    return re.sub(r"packets \d+ bytes \d+", "", done.stdout)


@pytest.mark.parametrize("engine", ENGINES)
def test_beside_a_docker_engine_that_drops_forwarded_packets_sandboxes_get_out(
    network: int, tmp_path: Path, engine: str
) -> None:
    program, text = ENGINES[engine]
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed; apt-get install iptables")
    if engine == "legacy" and subprocess.run([program, "-S"], check=False).returncode:
        pytest.skip("this kernel has no such tables")
    drop_forwarded(program, text)
    before = firewall(program)
    with made_outside(network) as outside, opened_home(tmp_path / "home") as home:
        box = home.start()
        with listening(outside, PUBLIC) as port:
            assert connect(box, PUBLIC, port) == "hello"
            home.run(home.runtime.close())
            drop_forwarded(program, text)
            assert connect(box, PUBLIC, port) == "TimeoutError"
            home.run(home.runtime.prepare())  # the next start of a server
            assert connect(box, PUBLIC, port) == "hello"
    assert firewall(program) == before


def test_a_bridge_is_taken_over_only_from_a_data_directory_that_is_gone(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    gone, present = tmp_path / "gone", tmp_path / "present"
    numbers = []
    for directory in (gone, present):
        directory.mkdir()
        numbers.append(claim(directory, tmp_path, directory / "network.json"))
    gone.joinpath("network.json").unlink()
    gone.rmdir()
    assert claim(tmp_path, tmp_path, tmp_path / "new.json") == numbers[0]
    assert claim(present, tmp_path, present / "network.json") == numbers[1]


def claim(owner: Path, place: Path, record: Path) -> int:
    """Claim a block as a server that ends at once, and return its number."""
    block, ids = claim_block(record, str(owner), SUBNET, place / "claims")
    ids.close()
    return block.number


def test_the_rules_are_in_force_once(home: Home) -> None:
    tables = [table for table in nft("list tables").splitlines() if home.bridge in table]
    assert tables == [f"table inet {home.bridge}", f"table bridge {home.bridge}"]


def test_rules_that_a_reload_of_the_firewall_removed_come_back(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    block, ids = claim_block(tmp_path / "block.json", "/nowhere", SUBNET, tmp_path / "claims")
    ours = Network(block, NetworkOptions("127.0.0.1"))
    ours.open()
    try:
        before = sorted(nft("list ruleset").splitlines())
        nft(f"add rule inet {block.bridge} full counter")
        ours.keep_up()  # what is there stays: paces and counts of sandboxes are not forgotten
        assert "counter" in nft(f"list chain inet {block.bridge} full")
        for removal in (f"delete table bridge {block.bridge}", "flush ruleset"):
            nft(removal)
            ours.keep_up()
            assert sorted(nft("list ruleset").splitlines()) == before
    finally:
        ours.close()
        ids.close()


def test_the_bridge_keeps_its_hardware_address_whatever_links_come_and_go(home: Home) -> None:
    with IPRoute() as netlink:
        bridge = netlink.link_lookup(ifname=home.bridge)[0]

        def address() -> str:
            (link,) = netlink.get_links(bridge)
            return str(link.get_attr("IFLA_ADDRESS"))

        before = address()
        netlink.link("add", ifname="low", kind="veth", address=LOWEST, peer={"ifname": "far"})
        netlink.link("set", index=netlink.link_lookup(ifname="low")[0], master=bridge)
        assert address() == before
