# SPDX-License-Identifier: Apache-2.0
"""A sandbox from an imported image: its files, its ids, its user."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.images import import_image
from tests.harness.runtime import Home

APPLETS = ("sh", "sleep", "id", "cat", "stat", "chown", "touch", "ls", "rm", "mkdir")


@pytest.fixture
def image(home: Home, tmp_path: Path) -> str:
    """Import an image with busybox and two users."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed; apt-get install busybox-static")
    tree = tmp_path / "tree"
    for name in ("bin", "etc", "home/app", "tmp"):
        (tree / name).mkdir(parents=True)
    shutil.copy(busybox, tree / "bin/busybox")
    for applet in APPLETS:
        (tree / "bin" / applet).symlink_to("busybox")
    (tree / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n")
    (tree / "home/app/file").write_text("from the image")
    archive = tmp_path / "image.tar"

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
        is_app = "home/app" in member.name
        member.uid = member.gid = 1000 if is_app else 0
        return member

    with tarfile.open(archive, "w") as packed:
        packed.add(tree, ".", filter=owned)
    home.run(import_image(home.runtime.images, "small", archive))
    return "small"


def test_the_files_of_an_image_belong_to_whom_it_says(home: Home, image: str) -> None:
    box = home.start(image)
    assert box.sh("stat -c %u:%g /bin/busybox /home/app/file").output.split() == [
        "0:0",
        "1000:1000",
    ]
    assert box.sh("cat /home/app/file").output == "from the image"


def test_root_changes_what_it_likes_and_the_image_stays_as_it_is(home: Home, image: str) -> None:
    box = home.start(image)
    changed = box.sh(
        "echo x:x:7:7::/:/bin/sh > /etc/passwd && chown 1000:33 /etc/passwd"
        " && rm -r /home/app && mkdir /new"
        " && stat -c %u:%g /etc/passwd"
    )
    assert changed.output == "1000:33"
    again = home.start(image)
    assert again.sh("cat /home/app/file").output == "from the image"
    assert "app:x:1000" in again.sh("cat /etc/passwd").output


def test_only_the_programs_of_the_image_are_there(home: Home, image: str) -> None:
    assert home.start(image).sh("ls /").output.split() == [
        "bin",
        "dev",
        "etc",
        "home",
        "opt",
        "proc",
        "run",
        "sys",
        "tmp",
    ]
