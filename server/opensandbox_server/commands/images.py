# SPDX-License-Identifier: Apache-2.0
"""`opensandbox-server images …`: one function a verb."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from opensandbox_server.errors import StartupError
from opensandbox_server.runtimes.base import RuntimeFault
from opensandbox_server.runtimes.images import ImageHere, Images
from opensandbox_server.runtimes.oci.images import ImageStore, build_image, import_image


async def import_(store: ImageStore, file: Path, name: str | None) -> str:
    """Take an image from a file."""
    if not file.exists():
        raise StartupError(f"{file}: no such file")
    return _made(await import_image(store, name or _name_of(file), file))


async def build(store: ImageStore, recipe: str, mirror: str, build_args: Sequence[str]) -> str:
    """Build an image from a recipe; how far it is goes to standard error."""
    given = dict(_argument(text) for text in build_args)
    return _made(await build_image(store, recipe, _tell, given=given, mirror=mirror))


async def pull(images: Images, reference: str, login: tuple[str, str] | None) -> str:
    """Fetch an image from a registry."""
    return _made(await images.pull(reference, login))


async def list_(images: Images) -> str:
    """Show what is there, one image a line."""
    lines = [f"{'NAME':<40} {'SIZE':>10}  {'MADE':<22}  DIGEST"]
    for image in await images.list():
        made = datetime.fromtimestamp(image.created, UTC).isoformat(" ", "minutes")
        digest = image.digest.removeprefix("sha256:")[:12]
        line = f"{image.name:<40} {_size(image.size_bytes):>10}  {made:<22}  {digest}"
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


async def remove(images: Images, name: str) -> str:
    """Remove an image."""
    await images.remove(name)
    return f"removed {name}\n"


def explain(fault: RuntimeFault | OSError) -> StartupError:
    """Say in one line what went wrong with an image."""
    return StartupError(" ".join(str(fault).split()))


def _argument(text: str) -> tuple[str, str]:
    name, is_pair, value = text.partition("=")
    if not is_pair:
        raise StartupError(f"--build-arg {text}: it looks like NAME=VALUE")
    return name, value


def _tell(text: str) -> None:
    print(f"build: {text}", file=sys.stderr, flush=True)


def _made(image: ImageHere) -> str:
    digest = f", {image.digest}" if image.digest else ""
    return f"{image.name} is here ({_size(image.size_bytes)}{digest})\n"


def _name_of(file: Path) -> str:
    name = file.name
    for ending in (".gz", ".zst", ".xz", ".bz2", ".tar", ".tgz"):
        name = name.removesuffix(ending)
    return name


def _size(count: int) -> str:
    return f"{count / 1024**2:.1f} MiB"
