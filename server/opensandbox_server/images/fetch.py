# SPDX-License-Identifier: Apache-2.0
"""Get images from elsewhere with the programs made for it: skopeo and mmdebstrap."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from opensandbox_server.images.archive import docker_architecture, read_image
from opensandbox_server.images.store import Image, ImageStore
from opensandbox_server.runtimes.base import RuntimeFault

RECIPES = {"debian": ("stable", ("ca-certificates", "python3-minimal"))}
"""Name → Debian suite and packages."""


class FetchFailed(RuntimeFault):
    """An image could not be had; the message says what the program said."""


async def import_image(store: ImageStore, name: str, file: Path) -> Image:
    """Add the image in file: docker-archive, OCI layout or rootfs tar. Raises BadArchive."""
    architecture = docker_architecture(platform.machine())
    return await asyncio.to_thread(
        store.add, name, lambda root: read_image(file, root, architecture)
    )


async def pull_image(store: ImageStore, name: str, login: tuple[str, str] | None = None) -> Image:
    """Copy an image from a registry. Raises FetchFailed, also when skopeo is missing."""
    return await asyncio.to_thread(_pull, store, name, login)


async def build_image(store: ImageStore, recipe: str, mirror: str = "") -> Image:
    """Make an image from Debian's packages. Raises FetchFailed, also when mmdebstrap is missing."""
    if recipe not in RECIPES:
        raise FetchFailed(f"there is no recipe {recipe}; there is {', '.join(sorted(RECIPES))}")
    return await asyncio.to_thread(_build, store, recipe, mirror)


def _pull(store: ImageStore, name: str, login: tuple[str, str] | None) -> Image:
    with tempfile.TemporaryDirectory(prefix="opensandbox-pull-") as place:
        words = ["copy", "--quiet", f"docker://{name}", f"oci:{place}/image:latest"]
        if login:
            words[1:1] = ["--authfile", _write_login(Path(place), name, login)]
        _run("skopeo", words)
        architecture = docker_architecture(platform.machine())
        return store.add(name, lambda root: read_image(Path(place) / "image", root, architecture))


def _write_login(place: Path, name: str, login: tuple[str, str]) -> str:
    """Give the login in a file: everybody can read the arguments of a program."""
    registry = name.split("/", 1)[0]
    if "." not in registry and ":" not in registry:
        raise FetchFailed(f"a login needs an image named with its registry, not {name}")
    secret = base64.b64encode(":".join(login).encode()).decode()
    file = place / "auth.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps({"auths": {registry: {"auth": secret}}}))
    return str(file)


def _build(store: ImageStore, recipe: str, mirror: str) -> Image:
    suite, packages = RECIPES[recipe]
    with tempfile.TemporaryDirectory(prefix="opensandbox-build-") as place:
        archive = Path(place) / "rootfs.tar"
        words = ["--variant=minbase", f"--include={','.join(packages)}", suite, str(archive)]
        _run("mmdebstrap", [*words, *([mirror] if mirror else [])])
        return store.add(recipe, lambda root: read_image(archive, root, ""))


def _run(program: str, words: Sequence[str]) -> None:
    found = shutil.which(program)
    if found is None:
        raise FetchFailed(f"{program} is not installed; apt-get install {program}")
    done = subprocess.run(
        [found, *words], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    if done.returncode:
        raise FetchFailed(f"{program} failed: {done.stderr.strip()[-2000:]}")
