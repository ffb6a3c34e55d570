# SPDX-License-Identifier: Apache-2.0
"""Certificates of a cluster are good for TLS in both directions."""

from __future__ import annotations

import json
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tools.cluster.certificates import Authority, Pair

_COMMON_NAME = NameOID.COMMON_NAME


def _context(purpose: ssl.Purpose, trusts: Authority, shows: Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cafile=str(trusts.pair.certificate))
    context.load_cert_chain(shows.certificate, shows.key)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _peer_seen_by_server(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str:
    """Connect over a socket pair; return the name that the server read in the certificate."""
    near, far = socket.socketpair()

    def call() -> bytes:
        with near, client.wrap_socket(near, server_hostname=host) as stream:
            return stream.recv(1)

    with far, ThreadPoolExecutor(1) as pool:
        answered = pool.submit(call)
        with server.wrap_socket(far, server_side=True) as stream:
            shown = stream.getpeercert(binary_form=True)
            stream.send(b".")
        assert answered.result(timeout=10) == b"."
    assert shown
    (name,) = x509.load_der_x509_certificate(shown).subject.get_attributes_for_oid(_COMMON_NAME)
    return str(name.value)


def test_a_server_and_a_client_trust_each_other(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    serving = authority.issue("server", "server", hosts=("localhost", "10.201.255.1"))
    calling = authority.issue("client", "system:node:node1", groups=("system:nodes",))
    server = _context(ssl.Purpose.CLIENT_AUTH, authority, serving)
    client = _context(ssl.Purpose.SERVER_AUTH, authority, calling)
    for host in ("localhost", "10.201.255.1"):
        assert _peer_seen_by_server(server, client, host) == "system:node:node1"


def test_a_client_of_another_authority_is_refused(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    server = _context(ssl.Purpose.CLIENT_AUTH, ours, ours.issue("a", "a", hosts=("localhost",)))
    client = _context(ssl.Purpose.SERVER_AUTH, ours, theirs.issue("b", "b"))
    with pytest.raises(ssl.SSLError):
        _peer_seen_by_server(server, client, "localhost")


def test_keys_and_kubeconfigs_are_private(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("admin", "admin", ("system:masters",))
    config = authority.kubeconfig(tmp_path / "kubeconfig", "https://10.201.255.1:6443", pair)
    for file in (authority.pair.key, pair.key, config):
        assert file.stat().st_mode & 0o777 == 0o600, file
    known = json.loads(config.read_text())
    assert known["clusters"][0]["cluster"]["server"] == "https://10.201.255.1:6443"
