# SPDX-License-Identifier: Apache-2.0
"""`images build` for real: packages of Debian's archive. Run by `make images`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opensandbox_server.images.fetch import RECIPES
from tests.images.conftest import Images, opened

MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_a_sandbox_runs_from_an_image_that_was_built(
    data_dir: Path, images: Images, recipe: str
) -> None:
    built = images("build", recipe, "--mirror", MIRROR)
    assert (built.returncode, built.stderr) == (0, "")
    assert built.stdout.startswith(f"{recipe} is here")
    with opened(data_dir) as home:
        box = home.start(recipe)
        assert "Debian" in box.sh("cat /etc/os-release").output
        assert box.sh("python3 -c 'print(6 * 7)'").output == "42"
        assert box.sh("stat -c %u:%g:%a /bin/su").output == "0:0:4755"
        assert box.sh("stat -c %u:%g:%a /etc/shadow").output == "0:42:640"


def test_packages_that_cannot_be_had_are_told_and_leave_nothing(
    data_dir: Path, images: Images
) -> None:
    refused = images("build", "debian", "--mirror", "http://127.0.0.1:1/debian")
    assert refused.returncode == 1
    assert "mmdebstrap failed" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (data_dir / "images" / "debian").exists()
    assert list(data_dir.glob("images/.new-*")) == []
