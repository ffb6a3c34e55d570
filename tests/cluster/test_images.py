# SPDX-License-Identifier: Apache-2.0
"""Images made here are read by a program that knows images."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.cluster.images import write_busybox, write_image


@pytest.mark.skipif(shutil.which("skopeo") is None, reason="skopeo is not installed")
def test_an_image_is_what_its_name_and_command_say(tmp_path: Path) -> None:
    file = tmp_path / "image.tar"
    write_image(file, "localhost/one:test", {"bin/one": b"program", "bin/two": "one"}, ["/bin/one"])
    listed = subprocess.run(
        ["skopeo", "inspect", "--config", f"docker-archive:{file}"],
        capture_output=True,
        text=True,
        check=True,
    )
    config = json.loads(listed.stdout)
    assert config["config"]["Cmd"] == ["/bin/one"]
    tags = subprocess.run(
        ["skopeo", "list-tags", f"docker-archive:{file}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(tags.stdout)["Tags"] == ["localhost/one:test"]


@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed")
def test_busybox_brings_its_programs_and_what_is_added(tmp_path: Path) -> None:
    file = tmp_path / "busybox.tar"
    write_busybox(file, "localhost/busybox:test", said=b"hello")
    subprocess.run(["tar", "-xf", file, "-C", tmp_path], check=True)
    listed = subprocess.run(
        ["tar", "-tf", tmp_path / "layer.tar"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"bin/busybox", "bin/sh", "bin/wget", "etc/passwd", "said"} <= set(listed)
