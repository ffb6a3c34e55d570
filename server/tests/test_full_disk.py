# SPDX-License-Identifier: Apache-2.0
"""No room left in the data directory: one clear error, nothing half-made, and it goes on after."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from opensandbox_server.host.ballast import BALLAST_BYTES
from server.tests.small_disk import filled, small_disk
from server.tests.world import create_request
from tests.harness.runtime import missing
from tests.harness.server import NotServing, serving
from tests.harness.wait import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
MAPS_IDS_IN_MEMORY = (6, 3)
"""The first kernel in which an image may lie on the kind of disk that we mount here."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A data directory with little room."""
    with small_disk(tmp_path / "data", "64m") as mounted:
        yield mounted


@pytest.fixture(params=["fake", "oci"])
def runtime(request: pytest.FixtureRequest) -> str:
    """The name of a runtime that works on such a disk here."""
    release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    if request.param == "oci" and (reason := missing()):
        pytest.skip(f"the embedded runtime does not work here: {reason}")
    if request.param == "oci" and release < MAPS_IDS_IN_MEMORY:
        pytest.skip("this kernel maps no ids of files in memory")
    return str(request.param)


def test_a_start_without_room_is_one_clear_error(disk: Path, runtime: str) -> None:
    with filled(disk), pytest.raises(NotServing) as refusal:
        serving(disk, "--runtime", runtime, key=None).__enter__()
    said = str(refusal.value)
    assert said.count("\n") == 1, said
    assert f"cannot use the data directory {disk}: No space left on device" in said
    assert not (disk / "api_key").exists()
    with serving(disk, "--runtime", runtime, "--stop-sandboxes"):
        pass


@pytest.mark.parametrize("is_store_there", [True, False], ids=["store too", "sandboxes only"])
def test_a_create_without_room_says_so_and_leaves_nothing(
    tmp_path: Path, disk: Path, runtime: str, is_store_there: bool
) -> None:
    config = tmp_path / "config.toml"
    place = disk if is_store_there else tmp_path
    config.write_text(f'[store]\npath = "{place}/store.db"\n')
    flags = ("--runtime", runtime, "--config", str(config), "--stop-sandboxes")
    with serving(disk, *flags) as server, server.client() as client:
        first = create(client)
        assert first.status_code == 202
        before = sandboxes_in(disk)
        with filled(disk):
            for _ in range(3):
                refused = create(client)
                assert refused.status_code == 500
                assert "full" in refused.json()["message"]
        assert sandboxes_in(disk) == before == {first.json()["id"]}
        assert client.get("/sandboxes").json()["pagination"]["totalItems"] == 1
        assert create(client).status_code == 202


def test_on_a_full_disk_a_server_starts_and_sandboxes_can_be_ended(
    disk: Path, runtime: str
) -> None:
    with serving(disk, "--runtime", runtime) as server, server.client() as client:
        made = [create(client).json()["id"] for _ in range(2)]
        wait_for_ballast(disk)
        with filled(disk):
            assert create(client).status_code == 500
            assert client.delete(f"/sandboxes/{made[0]}").status_code == 204
            assert client.get(f"/sandboxes/{made[0]}").status_code == 404
    with filled(disk), serving(disk, "--runtime", runtime) as server, server.client() as client:
        assert client.get(f"/sandboxes/{made[1]}").json()["status"]["state"] == "Running"
        assert client.delete(f"/sandboxes/{made[1]}").status_code == 204
        assert client.get("/sandboxes").json()["items"] == []
    with serving(disk, "--runtime", runtime, "--stop-sandboxes") as server:
        wait_for_ballast(disk)
        with server.client() as client:
            assert create(client).status_code == 202


def wait_for_ballast(disk: Path) -> None:
    ballast = disk / "ballast"
    eventually(lambda: ballast.exists() and ballast.stat().st_size >= BALLAST_BYTES)


def create(client: httpx.Client) -> httpx.Response:
    return client.post("/sandboxes", json=create_request(image={"uri": "host"}))


def sandboxes_in(disk: Path) -> set[str]:
    """Return the ids that have a directory; slots made ahead have none."""
    return {path.name for path in (disk / "sandboxes").iterdir() if path.name[0] != "."}
