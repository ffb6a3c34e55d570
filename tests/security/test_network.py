# SPDX-License-Identifier: Apache-2.0
"""Where a sandbox may connect to. A small internet is built around the runtime's own network."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address

import pytest
from pyroute2 import IPRoute  # type: ignore[import-untyped]

from tests.harness.runtime import Box, Home, in_namespace, listening
from tests.security.internet import (
    METADATA,
    PRIVATE,
    PUBLIC,
    RESOLVER,
    accepting,
    address_of,
    connect,
    hardware_of,
    serve,
    unisolated,
    with_ipv6,
)


def test_a_public_address_is_reached(home: Home, outside: int) -> None:
    with listening(outside, PUBLIC) as port:
        assert connect(home.start(), PUBLIC, port) == "hello"


@pytest.mark.parametrize("address", [METADATA, PRIVATE, RESOLVER])
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
        assert _try("127.0.0.1", port) == "connected"
        assert connect(home.start(), "127.0.0.1", port) == "ConnectionRefusedError"


def test_siblings_do_not_reach_each_other(home: Home) -> None:
    server, client = home.start(), home.start()
    address = address_of(server)
    serve(server)
    assert connect(server, address, 7777) == "hello"
    # A packet to a sibling goes to the host, which knows the way.
    with accepting(home, "prerouting"), accepting(home, "outbound"):
        assert connect(client, address, 7777) == "hello"
    for chain in ("prerouting", "outbound"):  # each of two locks is enough
        with accepting(home, chain):
            assert connect(client, address, 7777) == "TimeoutError"


def test_siblings_do_not_reach_each_other_on_the_bridge_either(home: Home) -> None:
    server, client = (home.start(without=("capabilities",)) for _ in range(2))
    address, back = address_of(server), address_of(client)
    serve(server)
    client.sh(f"ip route add {address} dev eth0; {_note(address, server)}")
    server.sh(f"ip route add {back} dev eth0; {_note(back, client)}")
    # Where the kernel shows bridged packets to nftables, our rules are a second lock.
    with accepting(home, "prerouting"), accepting(home, "outbound"):
        with unisolated(home):
            assert connect(client, address, 7777) == "hello"
        assert connect(client, address, 7777) in ("TimeoutError", "OSError")


def _note(address: str, box: Box) -> str:
    return f"ip neigh replace {address} lladdr {hardware_of(box)} dev eth0 nud permanent"


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


def _try(address: str, port: int = 22) -> str:
    try:
        socket.create_connection((address, port), 1.5).close()
    except OSError as fault:
        return type(fault).__name__
    return "connected"


def test_ipv6_leads_nowhere(home: Home) -> None:
    box = with_ipv6(home)
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
        with (
            accepting(home, "prerouting", "bridge"),
            accepting(home, "prerouting"),
            accepting(home, "input"),
        ):
            assert connect(box, f"{address}%eth0", port) == "TimeoutError"  # nobody answers it
            listener.settimeout(1)
            listener.accept()[0].close()  # but it was let in
        # Each of two locks is enough.
        for chain, family in (("prerouting", "bridge"), ("prerouting", "inet")):
            with accepting(home, chain, family):
                assert connect(box, f"{address}%eth0", port) in ("TimeoutError", "OSError")
            with pytest.raises(TimeoutError):
                listener.accept()


def test_siblings_do_not_reach_each_other_by_ipv6_either(home: Home) -> None:
    server, client = with_ipv6(home), with_ipv6(home)
    serve(server)
    found = "sed -n 's/^\\(fe80[0-9a-f]*\\) .*eth0/\\1/p' /proc/net/if_inet6"
    written = server.sh(found).output
    address = f"{ip_address(bytes.fromhex(written))}%eth0"
    assert connect(server, address, 7777) == "hello"
    with (
        unisolated(home),
        accepting(home, "prerouting", "bridge"),
        accepting(home, "prerouting"),
        accepting(home, "outbound"),
    ):
        assert connect(client, address, 7777) == "hello"
    with accepting(home, "prerouting", "bridge"):  # ports are isolated, too
        assert connect(client, address, 7777) in ("TimeoutError", "OSError")
    assert connect(client, address, 7777) in ("TimeoutError", "OSError")


def test_a_sandbox_without_network_has_no_interface(home: Home) -> None:
    box = home.start(has_network=False)
    assert box.sh("ls /sys/class/net").output == "lo"
    assert box.sh("cat /etc/resolv.conf").output == ""
    assert connect(box, PUBLIC, 80) == "OSError"


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
    # What execd itself opened in the sandbox: by which it is ended after what it starts.
    assert "-> /proc" not in listed.replace("-> /proc/1/oom_score_adj", "")
    assert os.fspath(home.data_dir) not in listed
    assert "/log\n" not in f"{listed}\n"  # of the program that made the container
