# SPDX-License-Identifier: Apache-2.0
"""Other users of the machine, and a data directory on a disk that lets everybody in."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from opensandbox_server.commands.doctor import examine
from opensandbox_server.errors import StartupError
from opensandbox_server.host.data_dir import make_private, open_data_dir
from opensandbox_server.runtimes.oci.images import ImageStore, import_image
from opensandbox_server.settings.settings import Settings
from server.tests.images.archives import tar_of
from server.tests.small_disk import reserving_disk
from tests.harness.runtime import opened_home

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be attacked like this")

SOMEBODY = 61234
"""A user that owns nothing and is in no group."""


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk just mounted, which everybody may enter, as may the directory above it.

    An ext4: images on a tmpfs cannot be mapped before Linux 6.3.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as above:  # all may enter it
        Path(above).chmod(0o755)
        with reserving_disk(Path(above) / "disk", "256M", 5) as place:
            assert stat.S_IMODE(place.stat().st_mode) == 0o755
            yield place


def as_somebody(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a local user; by way of env, for setpriv itself still may everything."""
    become = ["setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", "env"]
    return subprocess.run([*become, *words], capture_output=True, text=True, check=False)


def import_rootsh(data_dir: Path, tmp_path: Path) -> Path:
    """Import an image with a program that makes whoever runs it root; return where it is."""
    file = tmp_path / "image.tar"
    file.write_bytes(tar_of(("id", Path("/usr/bin/id").read_bytes(), {"mode": 0o4755})))
    image = asyncio.run(import_image(ImageStore(data_dir), "evil", file))
    return image.rootfs / "id"


def test_nobody_runs_a_set_uid_program_of_an_image(disk: Path, tmp_path: Path) -> None:
    program = import_rootsh(disk, tmp_path)
    assert as_somebody(str(program)).returncode != 0
    disk.chmod(0o755)  # and one directory further down all is closed again
    assert as_somebody(str(program)).returncode != 0
    (disk / "images").chmod(0o711)
    (disk / "images" / "evil").chmod(0o711)
    assert "euid=0" in as_somebody(str(program)).stdout, "the attack is none any more"


def test_nobody_reads_the_files_of_a_sandbox(network: int, disk: Path) -> None:
    assert network >= 0
    with open_data_dir(disk, None), opened_home(disk) as home:
        box = home.start()
        box.sh("echo secret > /secret")
        file = disk / "sandboxes" / box.id / "upper" / "secret"
        assert file.read_text() == "secret\n"
        assert as_somebody("cat", str(file)).returncode != 0
        disk.chmod(0o755)
        assert as_somebody("cat", str(file)).returncode != 0
        (disk / "sandboxes").chmod(0o711)
        assert as_somebody("cat", str(file)).stdout == "secret\n", "the attack is none any more"
        assert box.sh("cat /secret").output == "secret"


def test_directories_that_a_former_version_left_open_are_closed(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    for name in ("images", "sandboxes"):
        (tmp_path / "home" / name).mkdir(parents=True)
        (tmp_path / "home" / name).chmod(0o711)
    with opened_home(tmp_path / "home") as home:
        assert home.start().sh("echo works").output == "works"
        modes = [(tmp_path / "home" / name).stat().st_mode for name in ("images", "sandboxes")]
        assert [mode & 0o777 for mode in modes] == [0o700, 0o700]


def test_a_directory_that_is_also_somebody_elses_is_refused_and_not_changed(tmp_path: Path) -> None:
    shared = tmp_path / "srv"
    (shared / "website").mkdir(parents=True)
    shared.chmod(0o755)
    with pytest.raises(StartupError, match=f"others may use it .* chmod 0700 {shared}"):
        make_private(shared)
    assert shared.stat().st_mode & 0o777 == 0o755
    shared.chmod(0o700)
    make_private(shared)
    os.chown(shared, SOMEBODY, SOMEBODY)
    with pytest.raises(StartupError, match=f"belongs to user {SOMEBODY}, not to 0; chown 0"):
        make_private(shared)


def test_a_directory_like_tmp_is_never_closed(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    tmp_path.chmod(0o1777)
    with pytest.raises(StartupError, match="others may use it"):
        make_private(tmp_path)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


def test_doctor_says_who_else_may_enter_the_data_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    settings = Settings.model_validate({"server": {"data_dir": tmp_path}})
    found = {finding.name: finding for finding in asyncio.run(examine(settings))}
    assert not found["data directory"].is_ok
    assert found["data directory"].fix == f"chmod 0700 {tmp_path}"
