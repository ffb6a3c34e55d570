# SPDX-License-Identifier: Apache-2.0
"""Layers as real tools write them, and as nobody should: links between layers, long names."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import tarfile
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.images import BadArchive, ImageStore, import_image
from server.tests.images.archives import docker_archive, imported, names, tar_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")
LINK = {"type": tarfile.LNKTYPE}


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    """An empty store."""
    return ImageStore(tmp_path / "data")


def test_a_hard_link_to_a_file_of_an_earlier_layer_is_one_file(
    store: ImageStore, tmp_path: Path
) -> None:
    lower = tar_of(("bin/tool", b"tool", {}), ("way", "bin", {}))
    upper = tar_of(
        ("other", None, LINK | {"linkname": "bin/tool"}),
        ("through", None, LINK | {"linkname": "/way/tool"}),
        ("link", None, LINK | {"linkname": "way"}),
    )
    root = imported(store, tmp_path, docker_archive(lower, upper))
    tool = (root / "bin/tool").stat().st_ino
    assert (root / "other").stat().st_ino == tool
    assert (root / "through").stat().st_ino == tool
    assert (root / "link").readlink() == Path("bin")


def test_a_file_written_anew_leaves_its_hard_links_as_they_were(
    store: ImageStore, tmp_path: Path
) -> None:
    lower = tar_of(("a", b"1", {}), ("b", None, LINK | {"linkname": "a"}))
    root = imported(store, tmp_path, docker_archive(lower, tar_of(("a", b"2", {}))))
    assert ((root / "a").read_text(), (root / "b").read_text()) == ("2", "1")


def test_a_whiteout_of_what_is_not_there_is_no_error(store: ImageStore, tmp_path: Path) -> None:
    upper = tar_of(("a/.wh.nobody", b"", {}), ("b/.wh..wh..opq", b"", {}))
    root = imported(store, tmp_path, docker_archive(tar_of(("c", b"", {})), upper))
    assert sorted(names(root)) == ["a", "b", "c"]
    assert names(root / "a") == []


def test_a_whiteout_removes_a_link_and_not_what_it_leads_to(
    store: ImageStore, tmp_path: Path
) -> None:
    lower = tar_of(("kept/file", b"1", {}), ("way", "kept", {}))
    root = imported(store, tmp_path, docker_archive(lower, tar_of((".wh.way", b"", {}))))
    assert names(root) == ["kept"]
    assert names(root / "kept") == ["file"]


def test_a_compressed_layer_is_read_like_a_plain_one(store: ImageStore, tmp_path: Path) -> None:
    root = imported(store, tmp_path, docker_archive(gzip.compress(tar_of(("file", b"x", {})))))
    assert names(root) == ["file"]


def test_a_layer_compressed_in_a_way_we_cannot_read_says_how_to_convert_it(
    store: ImageStore, tmp_path: Path
) -> None:
    with pytest.raises(BadArchive, match="--dest-compress-format gzip"):
        imported(store, tmp_path, docker_archive(b"\x28\xb5\x2f\xfd" + b"\0" * 100))


def test_long_names_are_kept_and_names_that_no_disk_takes_are_refused(
    store: ImageStore, tmp_path: Path
) -> None:
    deep = "/".join(["d" * 100] * 30) + "/file"
    root = imported(store, tmp_path, tar_of((deep, b"x", {}), ("n" * 255, b"x", {})))
    assert (root / deep).read_bytes() == b"x"
    with pytest.raises(BadArchive, match="too long"):
        imported(store, tmp_path, tar_of(("n" * 256, b"x", {})), "long")
    with pytest.raises(BadArchive, match="too long"):
        imported(store, tmp_path, tar_of(("/".join(["d" * 200] * 25), b"x", {})), "deep")


@pytest.mark.parametrize("aim", ["/", ".", "a", "a/..", "nobody", ""])
def test_a_hard_link_to_a_directory_or_to_nothing_is_refused(
    store: ImageStore, tmp_path: Path, aim: str
) -> None:
    with pytest.raises(BadArchive):
        imported(store, tmp_path, tar_of(("a", None, {}), ("link", None, LINK | {"linkname": aim})))


@pytest.mark.parametrize(
    "manifest", ["[]", "{}", "[{}]", '[{"Config": 1}]', "null", '[{"Config": "c", "Layers": 3}]']
)
def test_a_manifest_that_makes_no_sense_is_refused(
    store: ImageStore, tmp_path: Path, manifest: str
) -> None:
    archive = tar_of(("manifest.json", manifest.encode(), {}), ("c", b"{}", {}))
    with pytest.raises(BadArchive):
        imported(store, tmp_path, archive)
    assert names(tmp_path / "data" / "images") == []


def test_an_index_that_leads_to_itself_comes_to_an_end(store: ImageStore, tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    (layout / "blobs").mkdir(parents=True)
    index = json.dumps({"manifests": [{"digest": "x:index.json"}]})
    for name in ("index.json", "oci-layout"):
        (layout / name).write_text(index)
    (layout / "blobs" / "x").symlink_to(layout)
    with pytest.raises(BadArchive, match="makes no sense"):
        asyncio.run(import_image(store, "endless", layout))
