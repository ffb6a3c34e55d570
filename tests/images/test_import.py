# SPDX-License-Identifier: Apache-2.0
"""`images import`, `list` and `remove` as a person types them, and a sandbox in between."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import ImageUnknown
from tests.images.conftest import Images, opened

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")


def test_an_image_is_imported_listed_used_and_removed(
    data_dir: Path, images: Images, tiny: Path
) -> None:
    imported = images("import", str(tiny), "--name", "mine:1")
    assert (imported.returncode, imported.stderr) == (0, "")
    assert imported.stdout.startswith("mine:1 is here (")
    assert images("import", str(tiny)).stdout.startswith("tiny is here (")
    assert {"mine:1", "tiny"} <= set(images("list").stdout.split())
    with opened(data_dir) as home:
        assert home.start("mine:1").sh("cat /etc/said").output == "from the registry"
        removed = images("remove", "mine:1")
        assert (removed.returncode, removed.stdout) == (0, "removed mine:1\n")
        with pytest.raises(ImageUnknown, match=r"opensandbox-server images pull mine:1"):
            home.start("mine:1")
    assert "mine:1" not in images("list").stdout


def test_a_file_that_is_no_image_is_told_in_a_line_and_leaves_nothing(
    data_dir: Path, images: Images, tmp_path: Path
) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear all,\n" * 1000)
    refused = images("import", str(file))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1, refused.stderr
    assert "letter.txt" in refused.stderr
    assert not list(data_dir.glob("images/*"))
