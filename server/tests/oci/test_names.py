# SPDX-License-Identifier: Apache-2.0
"""Sandboxes ask the bridge's address for names, and whoever the host asks answers."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.runtime import in_namespace, opened_home

ADDRESS = "198.51.100.9"


def answer_to(question: bytes) -> bytes:
    """Answer every question for an IPv4 address with the same one, and any other with nothing."""
    end = question.index(b"\0", 12) + 5
    asks_ipv4 = question[end - 4 : end - 2] == b"\0\1"
    head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, int(asks_ipv4), 0, 0)
    record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(ADDRESS)
    return head + question[12:end] + (record if asks_ipv4 else b"")


@contextlib.contextmanager
def name_server(netns: int, address: str) -> Iterator[list[str]]:
    """Answer questions at an address; yields who asked."""

    def bound() -> socket.socket:
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind((address, 53))
        return server

    server: socket.socket = in_namespace(netns, bound)
    askers: list[str] = []

    def serve() -> None:
        while True:
            question, asker = server.recvfrom(512)
            if question == b"end":
                return
            askers.append(asker[0])
            server.sendto(answer_to(question), asker)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield askers
    finally:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ending:
            ending.sendto(b"end", (address, 53))
        thread.join()
        server.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.53"])
def test_a_resolver_on_the_hosts_loopback_answers_sandboxes(
    network: int, tmp_path: Path, address: str
) -> None:
    with (
        name_server(network, address) as askers,
        opened_home(tmp_path / "home", {"nameserver": address}) as home,
    ):
        asked = home.start().python("import socket; print(socket.gethostbyname('name.test'))")
        assert asked.output == ADDRESS
        assert askers
