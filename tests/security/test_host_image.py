# SPDX-License-Identifier: Apache-2.0
"""What the host mounts below /usr is nothing of the image host, whenever it is mounted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.launcher import syscalls
from opensandbox_server.runtimes.oci.launcher.program import SEARCH_PATH
from tests.harness.runtime import Home, opened_home, own_mounts

PLACES = [
    place
    for place in map(Path, ("/usr/local/games", "/usr/local/src", "/usr/src", "/usr/games"))
    if place.is_dir() and not place.is_symlink()
]


@pytest.fixture(scope="module", params=["crun", "runc"])
def home(
    network: int, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Home]:
    """A runtime in a mount namespace of its own, with something mounted below /usr already."""
    assert network >= 0
    if len(PLACES) < 2:
        pytest.skip("this host has no two directories below /usr to mount on")
    if not shutil.which(request.param, path=SEARCH_PATH):
        pytest.skip(f"{request.param} is not installed")
    with own_mounts():
        mount_open(PLACES[0])
        options = {"program": request.param}
        with opened_home(tmp_path_factory.mktemp("home"), options) as opened:
            yield opened


def mount_open(place: Path) -> None:
    """Mount what everybody may write to."""
    syscalls.mount("theirs", str(place), "tmpfs", 0, "mode=0777,size=64k")
    place.joinpath("secret").write_text("of the host")


def test_mounts_of_the_host_are_not_shown_and_never_come_in(home: Home) -> None:
    first = home.start()
    mount_open(PLACES[1])
    for box in (first, home.start()):
        assert box.sh("ls /usr/bin/env").output == "/usr/bin/env"
        for place in PLACES[:2]:
            assert "secret" in (file.name for file in place.iterdir())
            assert "secret" not in box.sh(f"ls {place}").output
            assert "Read-only file system" in box.sh(f"touch {place}/mine").output
            assert f" {place} " not in box.sh("cat /proc/self/mountinfo").output
