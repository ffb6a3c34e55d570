# SPDX-License-Identifier: Apache-2.0
"""Disks that sandboxes are on: one they fill, and one they cannot be on."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import StartFailed
from server.tests.small_disk import reserving_disk
from tests.harness.runtime import opened_home

RESERVED_PERCENT = 20


def test_a_sandbox_cannot_have_the_blocks_that_are_reserved_for_root(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    if not shutil.which("mkfs.ext4"):
        pytest.skip("mkfs.ext4 is not installed; apt-get install e2fsprogs")
    with (
        reserving_disk(tmp_path / "data", "96M", RESERVED_PERCENT) as disk,
        opened_home(disk) as home,
    ):
        box = home.start()
        written = box.sh("cat /dev/zero > /fill; sync; stat -c %s /fill")
        assert "No space left" in written.output
        assert int(written.output.split()[-1]) > 8 * 1024 * 1024  # the root is not read-only
        left = os.statvfs(disk)
        assert left.f_bfree > left.f_blocks * (RESERVED_PERCENT - 5) // 100
        assert box.sh("rm /fill && touch /again && stat -c %u /again").output == "0"


def test_a_file_system_that_cannot_map_ids_is_named_with_what_to_do(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    place = tmp_path / "data"
    place.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "-o", "mode=700", "none", str(place)], check=True)
    try:
        with (
            opened_home(place) as home,
            pytest.raises(StartFailed, match="on ext4, xfs or btrfs"),
        ):
            home.start()
    finally:
        subprocess.run(["umount", str(place)], check=True)
