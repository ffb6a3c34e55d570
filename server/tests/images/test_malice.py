# SPDX-License-Identifier: Apache-2.0
"""Images that nobody means well with: too much, in the way, or impossible to run."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from opensandbox_server.runtimes.oci.images import BadArchive, ImageStore, import_image
from opensandbox_server.runtimes.oci.images.bounds import Room
from opensandbox_server.runtimes.oci.images.unpack import unpack_layer
from server.tests.images.archives import Entry, docker_archive, imported, names, tar_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")
FIFO = {"type": tarfile.FIFOTYPE}


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    """An empty store."""
    return ImageStore(tmp_path / "data")


def expect_nothing(tmp_path: Path) -> None:
    """See that an import left nothing behind."""
    assert names(tmp_path / "data" / "images") == []


def bare_header(name: str, kind: bytes, size: int) -> bytes:
    """Return a header that promises more than follows."""
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.CONTTYPE, tarfile.BLKTYPE, b"Z"])
@pytest.mark.parametrize("is_layer", [False, True])
def test_a_file_larger_than_any_image_is_refused_before_it_is_written(
    store: ImageStore, tmp_path: Path, kind: bytes, is_layer: bool
) -> None:
    bomb = bare_header("bomb", kind, 1 << 44)
    archive = docker_archive(gzip.compress(bomb)) if is_layer else bomb
    with pytest.raises(BadArchive, match=r"too large at 'bomb'.* free some space"):
        imported(store, tmp_path, archive)
    expect_nothing(tmp_path)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_would_fill_the_memory_is_refused(
    store: ImageStore, tmp_path: Path, kind: bytes
) -> None:
    bomb = docker_archive(gzip.compress(bare_header("x", kind, 1 << 33)))
    with pytest.raises(BadArchive, match="a header of 8589934592 bytes"):
        imported(store, tmp_path, bomb)
    expect_nothing(tmp_path)


def test_all_layers_of_an_image_share_one_room(tmp_path: Path) -> None:
    room = Room(bytes=3000, entries=5)
    layer = tar_of(("file", b"x" * 1000, {}), ("link", "file", {}))
    assert unpack_layer(io.BytesIO(layer), tmp_path, room) == 1000
    assert unpack_layer(io.BytesIO(layer), tmp_path, room) == 1000
    with pytest.raises(BadArchive, match=r"has more than .* fewer layers"):
        unpack_layer(io.BytesIO(layer), tmp_path, room)
    with pytest.raises(BadArchive, match="too large"):
        unpack_layer(io.BytesIO(layer), tmp_path, Room(bytes=999))


def test_an_image_is_not_deeper_than_can_be_removed(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(BadArchive, match="is deeper than"):
        imported(store, tmp_path, tar_of(("a/" * 1500 + "file", b"", {})))
    expect_nothing(tmp_path)


@pytest.mark.parametrize(
    "place", ["proc", "sys", "dev", "run", "run/opensandbox", "opt", "opt/opensandbox"]
)
@pytest.mark.parametrize(
    "what", [("../../..", {}), ("/proc/self/fd/7", {}), (b"file", {}), (None, FIFO)]
)
def test_nothing_is_in_the_way_of_what_a_sandbox_gets_mounted(
    store: ImageStore, tmp_path: Path, place: str, what: tuple[bytes | str | None, dict[str, Any]]
) -> None:
    with pytest.raises(BadArchive, match=f"else than a directory at /{place},"):
        imported(store, tmp_path, tar_of((place, *what)))
    expect_nothing(tmp_path)


@pytest.mark.parametrize("what", [("/bin/sh", {}), (None, {}), (None, FIFO)])
def test_execd_is_shown_where_nothing_else_is(
    store: ImageStore, tmp_path: Path, what: tuple[bytes | str | None, dict[str, Any]]
) -> None:
    with pytest.raises(BadArchive, match="else than a file at /opt/opensandbox/execd"):
        imported(store, tmp_path, tar_of(("opt/opensandbox/execd", *what)))


def test_an_image_of_a_former_version_is_looked_at_before_it_is_used(
    store: ImageStore, tmp_path: Path
) -> None:
    root = imported(store, tmp_path, tar_of(("proc", None, {})))
    (root / "proc").rmdir()
    (root / "proc").symlink_to("/")
    with pytest.raises(BadArchive, match="at /proc"):
        asyncio.run(ImageStore(tmp_path / "data").resolve("test"))


@pytest.mark.parametrize("variable", ["=x", "", "A\0B=x", "A=secret\0", "A=" + "secret" * 200_000])
def test_a_variable_that_no_program_can_have_is_refused_and_not_shown(
    store: ImageStore, tmp_path: Path, variable: str
) -> None:
    with pytest.raises(BadArchive, match="has a variable") as caught:
        imported(store, tmp_path, docker_archive(tar_of(), config={"Env": [variable]}))
    assert "secret" not in str(caught.value)


def test_more_variables_than_a_program_can_have_are_refused(
    store: ImageStore, tmp_path: Path
) -> None:
    many = [f"A{number}={'x' * 100_000}" for number in range(6)]
    with pytest.raises(BadArchive, match="variables of the image have more"):
        imported(store, tmp_path, docker_archive(tar_of(), config={"Env": many}))


def test_variables_of_several_lines_are_kept(store: ImageStore, tmp_path: Path) -> None:
    config = {"Env": ["A=1\n2=3", "B", "A B=c"]}
    imported(store, tmp_path, docker_archive(tar_of(), config=config))
    found = asyncio.run(store.resolve("test")).env
    assert found == {"A": "1\n2=3", "B": "", "A B": "c"}


@pytest.mark.parametrize("user", ["-1", "65536", "4294967295", "0:65536", "\u00b2", "a\nb", "x"])
def test_a_user_whom_no_sandbox_has_is_refused(
    store: ImageStore, tmp_path: Path, user: str
) -> None:
    layer = tar_of(("etc/passwd", b"x:x:99999:0::/:/bin/sh\n", {}))
    with pytest.raises(BadArchive):
        imported(store, tmp_path, docker_archive(layer, config={"User": user}))
    expect_nothing(tmp_path)


@pytest.mark.parametrize("in_the_way", [FIFO, {}])
@pytest.mark.parametrize("name", ["manifest.json", "config.json", "0/layer.tar"])
def test_a_document_that_is_no_file_is_not_waited_for(
    store: ImageStore, tmp_path: Path, name: str, in_the_way: dict[str, Any]
) -> None:
    with tarfile.open(fileobj=io.BytesIO(docker_archive(tar_of()))) as archive:
        entries: list[Entry] = [
            (member.name, None, in_the_way)
            if member.name == name
            else (member.name, read.read() if (read := archive.extractfile(member)) else None, {})
            for member in archive
        ]
    with pytest.raises(BadArchive, match="no file"):
        imported(store, tmp_path, tar_of(*entries))


def test_users_are_not_looked_for_in_a_fifo(store: ImageStore, tmp_path: Path) -> None:
    layer = tar_of(("etc/passwd", None, FIFO))
    archive = tmp_path / "image.tar"
    archive.write_bytes(docker_archive(layer, config={"User": "12"}))
    assert asyncio.run(import_image(store, "test", archive)).uid == 12
