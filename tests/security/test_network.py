# SPDX-License-Identifier: Apache-2.0
"""Where a sandbox may connect to. A small internet is built around the runtime's own network."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
from collections.abc import Iterator
from ipaddress import ip_address

import pytest
from pyroute2 import IPRoute  # type: ignore[import-untyped]

from opensandbox_server.runtimes.oci import syscalls
from tests.security.harness import Box, Home, in_namespace, listening, own_network

PUBLIC, METADATA, PRIVATE, RESOLVER = "203.0.113.2", "169.254.169.254", "10.99.0.2", "203.0.113.53"


@pytest.fixture(scope="module")
def outside(network: int) -> Iterator[int]:
    """A network namespace with public, private and metadata addresses, one hop from the runtime."""
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
def accepting(home: Home, chain: str) -> Iterator[None]:
    """Switch one chain of our rules off."""
    nft = ["nft", "-a", "-e", "insert", "rule", "inet", home.bridge, chain, "accept"]
    said = subprocess.run(nft, check=True, capture_output=True, text=True).stdout
    handle = said.rpartition("handle ")[2].split()[0]
    try:
        yield
    finally:
        remove = ["nft", "delete", "rule", "inet", home.bridge, chain, "handle", handle]
        subprocess.run(remove, check=True)


def test_a_public_address_is_reached(home: Home, outside: int) -> None:
    with listening(outside, PUBLIC) as port:
        assert connect(home.start(), PUBLIC, port) == "hello"


@pytest.mark.parametrize("address", [METADATA, PRIVATE])
def test_metadata_and_private_addresses_are_not(home: Home, outside: int, address: str) -> None:
    box = home.start()
    with listening(outside, address) as port:
        with accepting(home, "outbound"):
            assert connect(box, address, port) == "hello"
        assert connect(box, address, port) == "TimeoutError"


def test_services_of_the_host_are_not_reached(home: Home, network: int, outside: int) -> None:
    assert outside >= 0
    box = home.start()
    gateway = box.sh("sed -n 's/nameserver //p' /etc/resolv.conf").output
    for address in (gateway, "203.0.113.1"):
        with listening(network, address) as port:
            with accepting(home, "input"):
                assert connect(box, address, port) == "hello"
            assert connect(box, address, port) == "TimeoutError"


def test_the_hosts_loopback_is_another(home: Home, network: int) -> None:
    with listening(network, "127.0.0.1") as port:
        assert connect(home.start(), "127.0.0.1", port) == "ConnectionRefusedError"


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


def test_siblings_do_not_reach_each_other(home: Home) -> None:
    server, client = home.start(), home.start()
    address = server.sh("sed -n 's/\\t.*//p' /etc/hosts | tail -1").output
    serve(server)
    assert connect(server, address, 7777) == "hello"
    # Where the kernel shows bridged packets to nftables, our rules are a second lock.
    with _unisolated(home), accepting(home, "outbound"):
        assert connect(client, address, 7777) == "hello"
    assert connect(client, address, 7777) in ("TimeoutError", "OSError")
    with accepting(home, "outbound"):
        assert connect(client, address, 7777) in ("TimeoutError", "OSError")


@contextlib.contextmanager
def _unisolated(home: Home) -> Iterator[None]:
    """Switch the isolation of the bridge's ports off."""
    with IPRoute() as netlink:
        bridge = netlink.link_lookup(ifname=home.bridge)[0]
        ports = [link["index"] for link in netlink.get_links(master=bridge)]
        for port in ports:
            netlink.brport("set", index=port, isolated=0)
        yield
        for port in ports:
            netlink.brport("set", index=port, isolated=1)


def test_nobody_outside_can_connect_to_a_sandbox(home: Home, outside: int) -> None:
    address = home.start().sh("sed -n 's/\\t.*//p' /etc/hosts | tail -1").output
    in_namespace(outside, lambda: _route("add"))
    try:
        with accepting(home, "forward"):
            assert in_namespace(outside, lambda: _try(address)) == "ConnectionRefusedError"
        assert in_namespace(outside, lambda: _try(address)) == "TimeoutError"
    finally:
        in_namespace(outside, lambda: _route("del"))


def _route(change: str) -> None:
    with IPRoute() as far:
        far.route(change, dst="10.200.0.0/16", gateway="203.0.113.1")


def _try(address: str) -> str:
    try:
        socket.create_connection((address, 22), 1.5).close()
    except OSError as fault:
        return type(fault).__name__
    return "connected"


def test_ipv6_leads_nowhere(home: Home) -> None:
    box = home.start()
    found = box.sh("sed -n 's/^\\(fe80[0-9a-f]*\\).*/\\1/p' /proc/net/if_inet6").output
    assert found.startswith("fe80")
    with IPRoute() as netlink:
        bridge = netlink.link_lookup(ifname=home.bridge)[0]
        address = next(
            entry.get_attr("IFA_ADDRESS")
            for entry in netlink.get_addr(index=bridge, family=socket.AF_INET6)
        )
    with socket.create_server(("::", 0), family=socket.AF_INET6) as listener:
        port = listener.getsockname()[1]
        with accepting(home, "prerouting"), accepting(home, "input"):
            assert connect(box, f"{address}%eth0", port) == "TimeoutError"  # nobody answers it
            listener.settimeout(1)
            listener.accept()[0].close()  # but it was let in
        assert connect(box, f"{address}%eth0", port) in ("TimeoutError", "OSError")
        with pytest.raises(TimeoutError):
            listener.accept()


def test_siblings_do_not_reach_each_other_by_ipv6_either(home: Home) -> None:
    server, client = home.start(), home.start()
    serve(server)
    # Until the kernel knows that nobody else has an address (flag 40) it cannot be used.
    settled = "while grep -q ' 20 [4c]0 *eth0' /proc/net/if_inet6; do sleep 0.1; done"
    found = "sed -n 's/^\\(fe80[0-9a-f]*\\) .*eth0/\\1/p' /proc/net/if_inet6"
    assert client.sh(settled).status == 0
    written = server.sh(f"{settled}; {found}").output
    address = f"{ip_address(bytes.fromhex(written))}%eth0"
    assert connect(server, address, 7777) == "hello"
    with _unisolated(home), accepting(home, "prerouting"), accepting(home, "outbound"):
        assert connect(client, address, 7777) == "hello"
    assert connect(client, address, 7777) in ("TimeoutError", "OSError")


def test_a_sandbox_without_network_has_no_interface(home: Home) -> None:
    box = home.start(has_network=False)
    assert box.sh("ls /sys/class/net").output == "lo"
    assert box.sh("cat /etc/resolv.conf").output == ""
    assert connect(box, PUBLIC, 80) == "OSError"


RAW = """
import socket, struct, sys
source, word = sys.argv[1], sys.argv[2].encode()
udp = struct.pack("!HHHH", 9999, 9999, 8 + len(word), 0) + word
ends = socket.inet_aton(source) + socket.inet_aton("203.0.113.2")
head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + ends
sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
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


def send(box: Box, program: str, source: str, word: str) -> str:
    """Send a word with a source address."""
    return box.sh(f"/usr/bin/python3 -c {shlex.quote(program)} {source} {word}").output


def test_nothing_is_sent_with_a_foreign_address(home: Home, outside: int) -> None:
    strong, weak, foreign = home.start(), home.start(without=("capabilities",)), "198.51.100.7"
    with in_namespace(outside, lambda: _udp(PUBLIC, 9999)) as receiver:
        with accepting(home, "prerouting"):
            assert send(weak, RAW, foreign, "unprotected") == "sent"
            assert receiver.recvfrom(100) == (b"unprotected", (foreign, 9999))
        assert send(weak, RAW, foreign, "against-rules") == "sent"
        assert "OSError" in send(strong, BOUND, foreign, "bound")
        assert "PermissionError" in send(strong, RAW, foreign, "raw")
        assert send(strong, BOUND, "0.0.0.0", "honest") == "sent"
        assert receiver.recvfrom(100)[0] == b"honest"


def test_nothing_is_sent_with_the_address_of_a_sibling(home: Home, outside: int) -> None:
    strong, weak = home.start(), home.start(without=("capabilities",))
    sibling = home.start().sh("sed -n 's/\\t.*//p' /etc/hosts | tail -1").output
    with in_namespace(outside, lambda: _udp(PUBLIC, 9999)) as receiver:
        assert send(weak, RAW, sibling, "unprotected") == "sent"
        assert receiver.recvfrom(100)[0] == b"unprotected"
        assert "PermissionError" in send(strong, RAW, sibling, "raw")
        assert "OSError" in send(strong, BOUND, sibling, "bound")
        assert send(strong, BOUND, "0.0.0.0", "honest") == "sent"
        assert receiver.recvfrom(100)[0] == b"honest"


def _udp(address: str, port: int) -> socket.socket:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((address, port))
    receiver.settimeout(8)
    return receiver


def test_frames_cannot_be_made_up(home: Home) -> None:
    """Without them no neighbour's address can be claimed on the bridge."""
    attack = "import socket; socket.socket(17, socket.SOCK_RAW, 0x300); print('opened')"
    weak = home.start(without=("capabilities", "seccomp"))
    assert weak.python(attack).output == "opened"
    for without in (("capabilities",), ("seccomp",), ()):
        assert "OSError" in (said := home.start(without=without).python(attack).output) or (
            "PermissionError" in said
        )


def test_descriptors_of_the_launcher_do_not_reach_a_sandbox(home: Home) -> None:
    listed = home.start(without=("untraceable",)).sh("ls -l /proc/1/fd").output
    assert "socket:" in listed
    assert "-> /proc" not in listed
    assert os.fspath(home.data_dir) not in listed
