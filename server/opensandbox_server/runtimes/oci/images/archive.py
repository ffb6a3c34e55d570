# SPDX-License-Identifier: Apache-2.0
"""Read images from files: docker-archive, OCI layout (directory or tar) or rootfs tar."""

from __future__ import annotations

import contextlib
import json
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from opensandbox_server.runtimes.oci.image import Image
from opensandbox_server.runtimes.oci.images.bounds import (
    MOST_BYTES,
    BadArchive,
    BoundedHeader,
    Room,
)
from opensandbox_server.runtimes.oci.images.environment import read_environment
from opensandbox_server.runtimes.oci.images.places import check_places
from opensandbox_server.runtimes.oci.images.unpack import unpack_layer
from opensandbox_server.runtimes.oci.images.workdir import BadWorkingDirectory, working_directory

_LARGEST_DOCUMENT = 16 * 1024 * 1024
_LARGEST_USERS = 1024 * 1024
"""Of /etc/passwd and /etc/group, as far as they are read."""
_IDS = 65536
"""How many users a sandbox has."""
_DEEPEST_INDEX = 4
"""How many indexes may lead to one another; one that leads to itself would never end."""
_INDEXES = ("application/vnd.oci.image.index.v1+json", "manifest.list.v2+json")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def read_image(file: Path, root: Path, architecture: str) -> Image:
    """Unpack the image in file into root, which must not exist yet. Raises BadArchive."""
    image = _read_any(file, root, architecture, Room.below(root.parent))
    check_places(image.rootfs)
    return image


def _read_any(file: Path, root: Path, architecture: str, room: Room) -> Image:
    if file.is_dir():
        with _sensible():
            return _read_layout(file, root, architecture, room)
    try:
        names = _top_names(file)
    except (tarfile.TarError, EOFError, OSError) as fault:
        raise BadArchive(f"{file} is no tar archive: {fault}") from fault
    if not names & {"manifest.json", "index.json"}:
        return _read_rootfs(file, root, room)
    with tempfile.TemporaryDirectory(prefix=".image-", dir=root.parent) as place:
        _extract_documents(file, Path(place), room)
        with _sensible():
            return _read_documents(Path(place), names, root, architecture, room)


def docker_architecture(machine: str) -> str:
    """Translate what the kernel calls the machine."""
    return _ARCHITECTURES.get(machine, machine)


def image_from_config(config: dict[str, Any], root: Path, size: int) -> Image:
    """Translate an image's own config; the user is looked up in its /etc."""
    said = config.get("config") or {}
    uid, gid = find_user(root, str(said.get("User") or ""))
    command = [*(said.get("Entrypoint") or []), *(said.get("Cmd") or [])]
    try:
        cwd = working_directory(root, str(said.get("WorkingDir") or "/"))
    except BadWorkingDirectory as fault:
        raise BadArchive(str(fault)) from fault
    return Image(
        name="",
        rootfs=root,
        env=read_environment(said.get("Env") or []),
        entrypoint=command,
        cwd=cwd,
        uid=uid,
        gid=gid,
        created=time.time(),
        size_bytes=size,
    )


def find_user(root: Path, text: str) -> tuple[int, int]:
    """Translate USER of an image: name or number, with or without a group. Raises BadArchive."""
    user, _, group = text.partition(":")
    uid, gid = 0, 0
    if user:
        entry = _entry(root / "etc/passwd", user)
        if entry is None and not user.isdigit():
            raise BadArchive(f"the image runs as {user}, whom its /etc/passwd does not name")
        uid, gid = (int(entry[2]), int(entry[3])) if entry else (int(user), 0)
    if group:
        entry = _entry(root / "etc/group", group)
        if entry is None and not group.isdigit():
            raise BadArchive(f"the image runs as group {group}, which its /etc/group does not name")
        gid = int(entry[2]) if entry else int(group)
    if not (0 <= uid < _IDS and 0 <= gid < _IDS):
        raise BadArchive(f"the image runs as {uid}:{gid}, and sandboxes have ids below {_IDS}")
    return uid, gid


def _entry(file: Path, key: str) -> list[str] | None:
    # A link here could lead out of the image; then nobody is found.
    if file.is_symlink() or file.parent.is_symlink() or not file.is_file():
        return None
    with file.open(errors="replace") as text:
        lines = text.read(_LARGEST_USERS).splitlines()
    for line in lines:
        fields = line.split(":")
        if len(fields) > 3 and key in (fields[0], fields[2]):
            return fields
    return None


def _top_names(file: Path) -> set[str]:
    """Return the names in the archive that may tell its kind, not all of them."""
    found, room = set(), Room(MOST_BYTES)
    with tarfile.open(file, tarinfo=BoundedHeader) as archive:
        for member in archive:
            room.take(member)
            found.add(member.name.removeprefix("./").partition("/")[0])
    return found


def _read_rootfs(file: Path, root: Path, room: Room) -> Image:
    root.mkdir(mode=0o755)
    with file.open("rb") as source:
        size = unpack_layer(source, root, room)
    return Image(name="", rootfs=root, created=time.time(), size_bytes=size)


def _extract_documents(file: Path, place: Path, room: Room) -> None:
    """Unpack the archive around the layers; the same rules hold for it as for a layer."""
    with file.open("rb") as source:
        unpack_layer(source, place, room)


def _read_documents(
    place: Path, names: set[str], root: Path, architecture: str, room: Room
) -> Image:
    if "index.json" in names and "oci-layout" in names:
        return _read_layout(place, root, architecture, room)
    return _read_docker_archive(place, root, room)


@contextlib.contextmanager
def _sensible() -> Iterator[None]:
    """Take documents of any shape: whoever wrote the image wrote them."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        raise BadArchive(f"what the image says of itself makes no sense: {fault!r}") from fault


def _read_docker_archive(place: Path, root: Path, room: Room) -> Image:
    manifests = _json(place, "manifest.json")
    if not isinstance(manifests, list) or len(manifests) != 1:
        raise BadArchive("the archive must hold exactly one image")
    config = _json(place, manifests[0]["Config"])
    return _unpack_all(place, manifests[0]["Layers"], config, root, room)


def _read_layout(place: Path, root: Path, architecture: str, room: Room) -> Image:
    manifest = _json(place, "index.json")
    for _ in range(_DEEPEST_INDEX):
        if "layers" not in manifest:
            manifest = _json(place, _blob(_choose(manifest, architecture)["digest"]))
    config = _json(place, _blob(manifest["config"]["digest"]))
    layers = [_blob(layer["digest"]) for layer in manifest["layers"]]
    return _unpack_all(place, layers, config, root, room)


def _choose(index: dict[str, Any], architecture: str) -> dict[str, Any]:
    manifests: list[dict[str, Any]] = index.get("manifests") or []
    for manifest in manifests:
        platform = manifest.get("platform") or {}
        if platform.get("architecture", architecture) == architecture:
            return manifest
    raise BadArchive(f"the image has no part for {architecture}")


def _unpack_all(
    place: Path, layers: list[str], config: dict[str, Any], root: Path, room: Room
) -> Image:
    root.mkdir(mode=0o755)
    size = 0
    for layer in layers:
        with _opened(place, layer) as source:
            size += unpack_layer(source, root, room)
    return replace(image_from_config(config, root, size))


def _blob(digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    return f"blobs/{algorithm}/{value}"


def _json(place: Path, name: str) -> Any:
    with _opened(place, name) as file:
        text = file.read(_LARGEST_DOCUMENT)
    try:
        return json.loads(text)
    except ValueError as fault:
        raise BadArchive(f"{name} of the image is damaged: {fault}") from fault


@contextlib.contextmanager
def _opened(place: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a file named by the image; it must be in the image, through whatever links."""
    whole = place.resolve()
    path = (whole / name).resolve()
    if not path.is_relative_to(whole):
        raise BadArchive(f"{name} leads out of the image")
    if not path.is_file():  # to open a FIFO would wait for ever
        raise BadArchive(f"the image names {name}, which is not in it or no file")
    with path.open("rb") as file:
        yield file
