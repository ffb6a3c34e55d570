# SPDX-License-Identifier: Apache-2.0
"""Servers of one host, also in different networks, never share user ids."""

from __future__ import annotations

import subprocess
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from opensandbox_server.host.id_claims import claim_ids
from opensandbox_server.runtimes.oci.network.network import claim_block
from tests.harness.runtime import missing, opened_home, own_network

SUBNET = IPv4Network("10.200.0.0/16")
NOBODYS = range(2**32 - 20, 2**32 - 10)


@pytest.fixture(autouse=True)
def _fit_host() -> None:
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")


def test_servers_in_different_networks_have_different_ids(tmp_path: Path) -> None:
    mapped = []
    with own_network(), opened_home(tmp_path / "one") as one:
        mapped.append(one.start().sh("cat /proc/self/uid_map").output.split()[1])
        with own_network(), opened_home(tmp_path / "other") as other:
            mapped.append(other.start().sh("cat /proc/self/uid_map").output.split()[1])
            assert one.bridge != other.bridge
    assert len(set(mapped)) == 2


def test_without_the_claim_they_would_share_them(tmp_path: Path) -> None:
    """A bridge is seen in its own network only."""
    numbers = []
    for name in ("one", "other"):
        with own_network():
            place = tmp_path / name  # of claims: each is alone with its own
            block, claim = claim_block(tmp_path / f"{name}.json", "/nowhere", SUBNET, place)
            numbers.append(block.number)
            claim.close()
    assert numbers[0] == numbers[1]


def test_a_claim_is_alone_while_it_is_open(tmp_path: Path) -> None:
    first = claim_ids(0, NOBODYS, "/first", tmp_path)
    assert first
    assert claim_ids(0, NOBODYS, "/second", tmp_path) is None
    assert claim_ids(0, NOBODYS, "/first", tmp_path) is None
    first.close()
    second = claim_ids(0, NOBODYS, "/second", tmp_path)  # nothing of the first one is left
    assert second
    second.close()


def test_a_claim_waits_for_a_server_that_left_sandboxes(tmp_path: Path) -> None:
    owner = tmp_path / "data"
    (owner / "sandboxes" / "one").mkdir(parents=True)
    claim = claim_ids(0, NOBODYS, str(owner), tmp_path)
    assert claim
    claim.close()
    assert claim_ids(0, NOBODYS, "/second", tmp_path) is None
    again = claim_ids(0, NOBODYS, str(owner), tmp_path)
    assert again
    again.forget()
    again.close()
    second = claim_ids(0, NOBODYS, "/second", tmp_path)
    assert second
    second.close()


def test_ids_that_a_process_has_are_not_claimed(tmp_path: Path) -> None:
    uid = NOBODYS[3]
    with subprocess.Popen(["sleep", "1000"], user=uid, group=uid, extra_groups=[]) as process:
        try:
            assert Path(f"/proc/{process.pid}").stat().st_uid == uid
            assert claim_ids(0, NOBODYS, "/first", tmp_path) is None
        finally:
            process.kill()
    claim = claim_ids(0, NOBODYS, "/first", tmp_path)
    assert claim
    claim.close()
