# SPDX-License-Identifier: Apache-2.0
"""The image store: one directory per image, with its files and what it says of itself."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from opensandbox_server.host.data_dir import make_private
from opensandbox_server.runtimes.base import ImageUnknown, RuntimeFault
from opensandbox_server.runtimes.oci.image import PACK, Image
from opensandbox_server.runtimes.oci.images.fetch import pull_image
from opensandbox_server.runtimes.oci.images.host import host_paths, make_skeleton
from opensandbox_server.runtimes.oci.images.pack import (
    NoPack,
    Plan,
    is_whole,
    place_pack,
    plan_pack,
)
from opensandbox_server.runtimes.oci.images.places import check_places
from opensandbox_server.runtimes.oci.images.recipe import FAMILY, recipe_of

log = logging.getLogger(__name__)

HOST_IMAGE = "host"
_DESCRIPTION = "image.json"
_HOST_VERSION = 2
"""Changes when the skeleton of the host image does."""
CACHE = Path("/var/cache/opensandbox")
"""What all servers of a machine share."""
HOST_PATH = f"{PACK}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ImageNotMade(RuntimeFault):
    """The image host could not be made; the message says why."""


class ImageStore:
    """The images below a data directory."""

    def __init__(self, data_dir: Path, cache: Path = CACHE) -> None:
        """Take the data directory and what is shared with other servers; nothing is opened yet."""
        self._data_dir = data_dir
        self._directory = data_dir / "images"
        self._caches = (cache, data_dir / "cache")
        self._sandboxes = data_dir / "sandboxes"
        self._known: dict[str, tuple[int, Image]] = {}
        self._making_host = asyncio.Lock()

    async def resolve(self, name: str) -> Image:
        """Find an image. Raises ImageUnknown, which names the command that makes it."""
        known = self._known.get(name)
        if known and known[0] == self._stamp(name):
            return known[1]
        if name == HOST_IMAGE:
            async with self._making_host:
                image = await asyncio.to_thread(self._host)
        else:
            image = await asyncio.to_thread(self._fit, name)
        self._known[name] = self._stamp(name), image
        return image

    async def list(self) -> Sequence[Image]:
        """Return the images by name."""
        return await asyncio.to_thread(self._list)

    async def pull(self, name: str, login: tuple[str, str] | None = None) -> Image:
        """Copy an image from a registry. Raises FetchFailed, also when skopeo is missing."""
        return await pull_image(self, name, login)

    async def remove(self, name: str) -> None:
        """Remove an image; sandboxes that run from it keep its files. Raises ImageUnknown."""
        await asyncio.to_thread(self._remove, name)

    def sweep(self) -> None:
        """Remove former images that no sandbox runs from any more, and half-made ones. Blocks."""
        for fresh in self._directory.glob(".new-*"):
            with _held(fresh) as is_ours:
                if is_ours:
                    shutil.rmtree(fresh, ignore_errors=True)
        in_use = self._images_in_use()
        if in_use is None:
            return
        for aside in self._directory.glob(".old-*"):
            if _described_name(aside / "image") not in in_use:
                shutil.rmtree(aside, ignore_errors=True)

    def close_to_others(self) -> None:
        """Let nobody but us reach the files of images, whatever the data directory allows. Blocks.

        Former versions made the directory so that all could enter.
        """
        if self._directory.is_dir():
            self._directory.chmod(0o700)

    def add(self, name: str, fill: Callable[[Path], Image]) -> Image:
        """Make an image in a directory of its own; it appears whole or not at all. Blocks."""
        make_private(self._data_dir)
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self.close_to_others()
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=self._directory))
        with _held(fresh):
            try:
                image = fill(fresh / "rootfs")
                description = asdict(image) | {"name": name, "rootfs": "rootfs"}
                (fresh / _DESCRIPTION).write_text(json.dumps(description))
                final = self._place(name)
                self._set_aside(final)
                fresh.rename(final)
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                raise
        self.sweep()
        return self._read(name)

    def _host(self) -> Image:
        plan = _plan_or_none()
        stamp = f"{_HOST_VERSION}.{int(_newest_stamp())}.{plan.key if plan else ''}"
        marker = self._place(HOST_IMAGE) / "stamp"
        try:
            is_there = marker.is_file() and marker.read_text() == stamp
            if not is_there or not self._has_pack(HOST_IMAGE):
                self.add(HOST_IMAGE, lambda root: self._fill_host(root, stamp, plan))
        except OSError as fault:
            places = " or ".join(str(cache) for cache in self._caches)
            raise ImageNotMade(
                f"the image {HOST_IMAGE} cannot be made: {fault.strerror or fault}; it needs "
                f"{self._directory} and 150 MiB in {places}"
            ) from fault
        return self._read(HOST_IMAGE)

    def _fill_host(self, root: Path, stamp: str, plan: Plan | None) -> Image:
        make_skeleton(root)
        (root.parent / "stamp").write_text(stamp)
        image = Image(HOST_IMAGE, root, host_paths=host_paths(), cwd="/workspace")
        if plan is None:
            return image
        try:
            pack = place_pack(plan, self._caches, self._directory)
        except NoPack as fault:
            log.warning("sandboxes of the image %s get no Python of ours: %s", HOST_IMAGE, fault)
            return image
        return replace(image, pack=str(pack), env={"PATH": HOST_PATH})

    def _has_pack(self, name: str) -> bool:
        """Say whether the pack an image was made with is still there, and as it was made."""
        pack = self._read(name).pack
        return not pack or is_whole(Path(pack))

    def _fit(self, name: str) -> Image:
        """Read an image to start from; former versions imported what this one refuses."""
        image = self._read(name)
        check_places(image.rootfs)
        return image

    def _read(self, name: str) -> Image:
        place = self._place(self._known_as(name))
        try:
            described = json.loads((place / _DESCRIPTION).read_text())
        except (OSError, ValueError):
            raise unknown(name) from None
        return Image(**described | {"rootfs": place / described["rootfs"]})

    def _known_as(self, name: str) -> str:
        """Return the name that an image has here: one of ours is built without registry and tag."""
        return name if self._place(name).is_dir() else _built_as(name)

    def _list(self) -> Sequence[Image]:
        if not self._directory.is_dir():
            return []
        found = []
        for description in sorted(self._directory.glob(f"[!.]*/{_DESCRIPTION}")):
            described = json.loads(description.read_text())
            found.append(Image(**described | {"rootfs": description.parent / "rootfs"}))
        return sorted(found, key=lambda image: image.name)

    def _remove(self, name: str) -> None:
        place = self._place(self._known_as(name))
        if not place.is_dir():
            raise unknown(name)
        self._set_aside(place)
        self.sweep()

    def _set_aside(self, place: Path) -> None:
        """Free the name of an image at once; sweep removes the files when nobody needs them."""
        if place.is_dir():
            aside = Path(tempfile.mkdtemp(prefix=".old-", dir=self._directory))
            place.rename(aside / "image")

    def _images_in_use(self) -> set[str] | None:
        """Return the names that running sandboxes were made by, and what those may stand for.

        None when that of one cannot be told.
        """
        found: set[str] = set()
        for record in self._sandboxes.glob("*/state.json"):
            try:
                described = json.loads(record.read_text())
                if not described["has_ended"]:
                    found |= {described["image"], _built_as(described["image"])}
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError):
                return None
        return found

    def _stamp(self, name: str) -> int:
        """Tell one import of an image from the next, also by another process; 0 when it is gone."""
        with contextlib.suppress(OSError):
            return (self._place(self._known_as(name)) / _DESCRIPTION).stat().st_mtime_ns
        return 0

    def _place(self, name: str) -> Path:
        """Return the directory of an image; names hold slashes and colons, directories do not."""
        plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).lstrip(".")[:80]
        if plain == name:
            return self._directory / name
        return self._directory / f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


@contextlib.contextmanager
def _held(fresh: Path) -> Iterator[bool]:
    """Hold a directory in which an image is made; False when another process does.

    The lock goes with the process: what a killed one left can be held, and removed, by the next.
    """
    try:
        descriptor = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def _plan_or_none() -> Plan | None:
    try:
        return plan_pack()
    except NoPack as fault:
        log.warning("sandboxes of the image %s get no Python of ours: %s", HOST_IMAGE, fault)
        return None


def _built_as(name: str) -> str:
    recipe = recipe_of(name)
    return f"{FAMILY}/{recipe}" if recipe else name


def _described_name(place: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return str(json.loads((place / _DESCRIPTION).read_text())["name"])
    return None


def unknown(name: str) -> ImageUnknown:
    """Say that an image is not here and how to get it."""
    if recipe := recipe_of(name):
        return ImageUnknown(
            f"image {name} is not here; build it with: opensandbox-server images build {recipe}"
        )
    return ImageUnknown(
        f"image {name} is not here; get it with: opensandbox-server images pull {name}, or import "
        f"it from a file with: opensandbox-server images import FILE --name {name}; the image "
        f"{HOST_IMAGE} needs no download"
    )


def _newest_stamp() -> float:
    """Return when the parts of the host that the skeleton copies changed last."""
    copied = [Path("/etc") / name for name in ("ld.so.cache", "ssl/certs", "alternatives")]
    return max((path.stat().st_mtime for path in copied if path.exists()), default=0.0)
