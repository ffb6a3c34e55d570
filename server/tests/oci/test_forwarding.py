# SPDX-License-Identifier: Apache-2.0
"""A host does not become a router between its networks because sandboxes are forwarded."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroute2 import IPRoute  # type: ignore[import-untyped]

from opensandbox_server.runtimes.oci.launcher import syscalls
from tests.harness.runtime import in_namespace, listening, opened_home, own_network
from tests.security.internet import PUBLIC, connect, made_outside

SWITCH = Path("/proc/sys/net/ipv4/ip_forward")


@pytest.fixture
def outside(network: int) -> Iterator[int]:
    """A public network beside a host that forwards nothing yet.

    A new network inherits the switches of the host's, where another server may be at work; only a
    change of the common switch sets them all.
    """
    SWITCH.write_text("1")
    SWITCH.write_text("0")
    with made_outside(network) as netns:
        yield netns


@pytest.fixture
def office(network: int, outside: int) -> Iterator[int]:
    """A private network on the host's other side, which believes that the host is a router."""
    with own_network() as netns:
        syscalls.setns(network, syscalls.CLONE_NEWNET)
        with IPRoute() as near:
            near.link("add", ifname="lan", kind="veth", peer={"ifname": "up", "net_ns_fd": netns})
            link = near.link_lookup(ifname="lan")[0]
            near.addr("add", index=link, address="192.168.77.1", prefixlen=24)
            near.link("set", index=link, state="up")
        in_namespace(netns, lambda: set_up_link("192.168.77.2", "default", "192.168.77.1"))
        in_namespace(outside, lambda: set_up_link(None, "192.168.77.0/24", "203.0.113.1"))
        yield netns


def set_up_link(address: str | None, destination: str, gateway: str) -> None:
    """Set up the link of a network namespace."""
    with IPRoute() as far:
        link = far.link_lookup(ifname="up")[0]
        if address:
            far.addr("add", index=link, address=address, prefixlen=24)
            far.link("set", index=link, state="up")
        far.route("add", dst=destination, gateway=gateway)


def greeted(netns: int, port: int) -> str:
    """Return what a public server says to a network namespace."""

    def ask() -> str:
        try:
            with socket.create_connection((PUBLIC, port), 1.5) as connection:
                return connection.recv(100).decode()
        except OSError as fault:
            return type(fault).__name__

    return str(in_namespace(netns, ask))


def switched_on() -> set[str]:
    """Return the switches that are on."""
    switches = Path("/proc/sys/net/ipv4/conf").iterdir()
    return {one.name for one in switches if (one / "forwarding").read_text().strip() == "1"}


def test_only_sandboxes_are_forwarded_until_somebody_else_wants_more(
    outside: int, office: int, tmp_path: Path
) -> None:
    with listening(outside, PUBLIC) as port:
        assert greeted(office, port) == "TimeoutError"
        with opened_home(tmp_path / "home") as home:
            box = home.start()
            assert connect(box, PUBLIC, port) == "hello"
            assert greeted(office, port) == "TimeoutError"
            subprocess.run(["nft", "flush", "chain", "inet", "opensandbox", "forward"], check=True)
            assert greeted(office, port) == "hello"  # what the switches alone would do
            assert SWITCH.read_text() == "0\n"
            home.run(home.runtime.close())
            SWITCH.write_text("1")  # as a Docker engine does when it starts
            home.run(home.runtime.prepare())
            assert connect(box, PUBLIC, port) == "hello"
            assert greeted(office, port) == "hello"
        assert SWITCH.read_text() == "1\n"
    assert_no_rules()


def test_the_last_server_leaves_no_trace(outside: int, tmp_path: Path) -> None:
    assert switched_on() == set()
    with listening(outside, PUBLIC) as port, contextlib.ExitStack() as later:
        first = later.enter_context(opened_home(tmp_path / "first"))
        with opened_home(tmp_path / "second") as second:
            assert connect(second.start(), PUBLIC, port) == "hello"
        assert connect(first.start(), PUBLIC, port) == "hello"
    assert switched_on() == set()
    assert_no_rules()


def assert_no_rules() -> None:
    """See that no table is left in this network."""
    done = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    assert done.stdout == ""
