# SPDX-License-Identifier: Apache-2.0
"""Images from files: what is kept, what is refused, and that nothing is written outside."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from opensandbox_server.runtimes.base import ImageUnknown
from opensandbox_server.runtimes.oci.images import (
    BadArchive,
    FetchFailed,
    ImageStore,
    import_image,
)
from opensandbox_server.runtimes.oci.images.archive import find_user
from server.tests.images.archives import Entry, docker_archive, imported, names, tar_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    """An empty store."""
    return ImageStore(tmp_path / "data")


def test_a_rootfs_tar_keeps_owners_modes_links_and_setuid(
    store: ImageStore, tmp_path: Path
) -> None:
    root = imported(
        store,
        tmp_path,
        tar_of(
            ("bin", None, {}),
            ("bin/su", b"program", {"mode": 0o4755, "uid": 0}),
            ("home/user", None, {"uid": 1000, "gid": 1000, "mode": 0o700}),
            ("home/user/file", b"text", {"uid": 1000, "gid": 1000, "mode": 0o640}),
            ("sh", "bin/su", {}),
            ("hard", None, {"type": tarfile.LNKTYPE, "linkname": "bin/su"}),
        ),
    )
    assert (root / "bin/su").stat().st_mode & 0o7777 == 0o4755
    assert (root / "home/user").stat().st_uid == 1000
    assert (root / "home/user").stat().st_mode & 0o777 == 0o700
    assert (root / "home/user/file").read_text() == "text"
    assert (root / "sh").readlink() == Path("bin/su")
    assert (root / "hard").stat().st_ino == (root / "bin/su").stat().st_ino


def test_later_layers_replace_remove_and_empty_what_earlier_ones_made(
    store: ImageStore, tmp_path: Path
) -> None:
    lower = tar_of(
        ("keep", b"1", {}),
        ("gone", b"1", {}),
        ("tree/deep/file", b"1", {}),
        ("opaque/old", b"1", {}),
        ("becomes-file/x", b"1", {}),
    )
    upper = tar_of(
        (".wh.gone", b"", {}),
        ("tree/.wh.deep", b"", {}),
        ("opaque/new", b"2", {}),
        ("opaque/.wh..wh..opq", b"", {}),
        ("becomes-file", b"2", {}),
        ("keep", b"2", {}),
    )
    root = imported(store, tmp_path, docker_archive(lower, upper))
    assert (root / "keep").read_text() == "2"
    assert not (root / "gone").exists()
    assert list((root / "tree").iterdir()) == []
    assert names(root / "opaque") == ["new"]
    assert (root / "becomes-file").read_text() == "2"
    assert not list(root.glob("**/.wh.*"))


def test_what_the_image_says_of_itself_is_kept(store: ImageStore, tmp_path: Path) -> None:
    passwd = b"root:x:0:0::/:/bin/sh\napp:x:42:43::/:/bin/sh\n"
    config = {
        "Env": ["A=1", "B=x=y"],
        "User": "app",
        "WorkingDir": "/srv",
        "Entrypoint": ["/run"],
        "Cmd": ["it"],
    }
    imported(store, tmp_path, docker_archive(tar_of(("etc/passwd", passwd, {})), config=config))
    image = asyncio.run(store.resolve("test"))
    assert image.env == {"A": "1", "B": "x=y"}
    assert (image.uid, image.gid, image.cwd) == (42, 43, "/srv")
    assert list(image.entrypoint) == ["/run", "it"]


@pytest.mark.parametrize(
    "place",
    [
        *("/proc/self/fd/7", "//proc/self/cwd", "/proc", "/sys/kernel", "/dev/fd/7", "srv"),
        *("/srv/../proc/1/root", "/srv\n", "/./dev", "/link", "/deep/link", "/loop"),
    ],
)
def test_no_program_of_an_image_begins_where_the_kernel_leads_elsewhere(
    store: ImageStore, tmp_path: Path, place: str
) -> None:
    links = {"link": "proc/self/fd/7", "deep/link": "../link/x", "loop": "loop"}
    layer = tar_of(("deep", None, {}), *((name, to, {}) for name, to in links.items()))
    with pytest.raises(BadArchive, match="the image begins in"):
        imported(store, tmp_path, docker_archive(layer, config={"WorkingDir": place}))


@pytest.mark.parametrize("place", ["/srv", "/srv/", "/new/place", "/processes", "/inner/srv"])
def test_other_directories_may_be_where_programs_begin(
    store: ImageStore, tmp_path: Path, place: str
) -> None:
    layer = tar_of(("inner", "/", {}))
    imported(store, tmp_path, docker_archive(layer, config={"WorkingDir": place}))
    assert asyncio.run(store.resolve("test")).cwd == place.rstrip("/")


@pytest.mark.parametrize("is_directory", [True, False])
def test_an_oci_layout_is_read_from_a_directory_and_from_a_tar(
    store: ImageStore, tmp_path: Path, is_directory: bool
) -> None:
    blobs: dict[str, bytes] = {}

    def blob(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    layer = blob(tar_of(("file", b"content", {})))
    config = blob(json.dumps({"config": {"Env": ["A=1"]}}).encode())
    manifest = blob(json.dumps({"config": config, "layers": [layer]}).encode())
    documents = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps({"manifests": [manifest]}).encode(),
        **blobs,
    }
    layout = tmp_path / "layout"
    if is_directory:
        for name, content in documents.items():
            (layout / name).parent.mkdir(parents=True, exist_ok=True)
            (layout / name).write_bytes(content)
    else:
        layout.write_bytes(tar_of(*((name, content, {}) for name, content in documents.items())))
    image = asyncio.run(import_image(store, "laid-out", layout))
    assert (image.rootfs / "file").read_text() == "content"
    assert image.env == {"A": "1"}


ESCAPES: dict[str, tuple[Entry, ...]] = {
    "parent": (("../outside", b"x", {}),),
    "deep parent": (("a/../../outside", b"x", {}),),
    "absolute": (("/outside", b"x", {}),),
    "link": (("way", "..", {}), ("way/outside", b"x", {})),
    "absolute link": (("way", "{tmp}", {}), ("way/outside", b"x", {})),
    "link to a file": (("outside", "{tmp}/outside", {}), ("outside", b"x", {})),
    "hard link": (
        ("copy", None, {"type": tarfile.LNKTYPE, "linkname": "{tmp}/secret"}),
        ("copy", b"x", {}),
    ),
    "hard link with parents": (
        ("copy", None, {"type": tarfile.LNKTYPE, "linkname": "../../../../{tmp}/secret"}),
    ),
    "whiteout": (("way", "{tmp}", {}), ("way/.wh.secret", b"", {})),
    "whiteout of the parent": (("a/.wh...", b"", {}),),
    "opaque": (("way", "{tmp}", {}), ("way/.wh..wh..opq", b"", {})),
    "directory mode": (
        ("way", "{tmp}", {}),
        ("way", None, {"mode": 0o777}),
    ),
}


@pytest.mark.parametrize("kind", ESCAPES)
def test_no_layer_writes_reads_or_removes_outside_of_its_image(
    store: ImageStore, tmp_path: Path, kind: str
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    (victim / "secret").write_text("mine")

    def here(value: Any) -> Any:
        return value.replace("{tmp}", str(victim)) if isinstance(value, str) else value

    entries = [
        (name, here(content), {key: here(value) for key, value in more.items()})
        for name, content, more in ESCAPES[kind]
    ]
    root: Path | None = None
    try:
        root = imported(store, tmp_path, tar_of(*entries))
    except BadArchive:
        assert asyncio.run(store.list()) == []
    assert names(victim) == ["secret"]
    assert (victim / "secret").read_text() == "mine"
    assert (victim / "secret").stat().st_nlink == 1
    assert victim.stat().st_mode & 0o777 == 0o755
    assert not (tmp_path / "data" / "outside").exists()
    assert not (tmp_path / "data" / "images" / "outside").exists()
    if root:
        assert not any(file.read_bytes() == b"mine" for file in root.glob("**/*") if file.is_file())


def test_device_nodes_are_left_out(store: ImageStore, tmp_path: Path) -> None:
    device = {"type": tarfile.BLKTYPE, "devmajor": 254, "devminor": 0}
    root = imported(store, tmp_path, tar_of(("disk", None, device), ("file", b"x", {})))
    assert names(root) == ["file"]


@pytest.mark.parametrize("archive", [b"", b"no tar at all", docker_archive()[:700]])
def test_a_damaged_archive_is_refused_and_leaves_nothing(
    store: ImageStore, tmp_path: Path, archive: bytes
) -> None:
    with pytest.raises(BadArchive):
        imported(store, tmp_path, archive)
    images = tmp_path / "data" / "images"
    assert not images.exists() or names(images) == []


def test_an_import_replaces_and_remove_removes(store: ImageStore, tmp_path: Path) -> None:
    imported(store, tmp_path, tar_of(("first", b"1", {})), "registry/name:tag")
    root = imported(store, tmp_path, tar_of(("second", b"2", {})), "registry/name:tag")
    assert names(root) == ["second"]
    assert [image.name for image in asyncio.run(store.list())] == ["registry/name:tag"]
    asyncio.run(store.remove("registry/name:tag"))
    assert asyncio.run(store.list()) == []
    with pytest.raises(ImageUnknown):
        asyncio.run(store.resolve("registry/name:tag"))
    with pytest.raises(ImageUnknown):
        asyncio.run(store.remove("registry/name:tag"))


def test_an_unknown_image_names_the_commands_that_get_it(store: ImageStore) -> None:
    with pytest.raises(ImageUnknown, match="images pull python:3") as refused:
        asyncio.run(store.resolve("python:3"))
    assert "images import" in str(refused.value)


def test_the_user_of_an_image_is_found_by_name_or_number(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("app:x:42:43::/:\n")
    (tmp_path / "etc/group").write_text("staff:x:50:\n")
    assert find_user(tmp_path, "") == (0, 0)
    assert find_user(tmp_path, "app") == (42, 43)
    assert find_user(tmp_path, "7:8") == (7, 8)
    assert find_user(tmp_path, "app:staff") == (42, 50)
    with pytest.raises(BadArchive, match="nobody-here"):
        find_user(tmp_path, "nobody-here")


def test_a_missing_program_is_named_with_the_package(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FetchFailed, match="apt-get install skopeo"):
        asyncio.run(store.pull("name"))


def test_the_host_image_is_a_skeleton_without_anything_of_its_people(store: ImageStore) -> None:
    image = asyncio.run(store.resolve("host"))
    assert "/usr" in image.host_paths
    assert names(image.rootfs / "usr") == []
    assert names(image.rootfs / "root") == []
    assert not (image.rootfs / "etc/shadow").exists()
    assert (image.rootfs / "tmp").stat().st_mode & 0o7777 == 0o1777
    again = asyncio.run(ImageStore(image.rootfs.parents[2]).resolve("host"))
    assert again.rootfs.stat().st_ino == image.rootfs.stat().st_ino
