# SPDX-License-Identifier: Apache-2.0
"""`opensandbox-server images …`: one function a verb."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from opensandbox_server.errors import StartupError
from opensandbox_server.images import Image, ImageStore, build_image, import_image, pull_image
from opensandbox_server.runtimes.base import RuntimeFault


async def import_(store: ImageStore, file: Path, name: str | None) -> str:
    """Take an image from a file."""
    if not file.exists():
        raise StartupError(f"{file}: no such file")
    return _made(await import_image(store, name or _name_of(file), file))


async def build(store: ImageStore, recipe: str, mirror: str) -> str:
    """Build an image from a recipe."""
    return _made(await build_image(store, recipe, mirror))


async def pull(store: ImageStore, reference: str, login: tuple[str, str] | None) -> str:
    """Fetch an image from a registry."""
    return _made(await pull_image(store, reference, login))


async def list_(store: ImageStore) -> str:
    """Show what is there, one image a line."""
    lines = [f"{'NAME':<40} {'SIZE':>10}  MADE"]
    for image in await store.list():
        made = datetime.fromtimestamp(image.created, UTC).isoformat(" ", "minutes")
        lines.append(f"{image.name:<40} {_size(image.size_bytes):>10}  {made}")
    return "\n".join(lines) + "\n"


async def remove(store: ImageStore, name: str) -> str:
    """Remove an image."""
    await store.remove(name)
    return f"removed {name}\n"


def explain(fault: RuntimeFault | OSError) -> StartupError:
    """Say in one line what went wrong with an image."""
    return StartupError(" ".join(str(fault).split()))


def _made(image: Image) -> str:
    return f"{image.name} is here ({_size(image.size_bytes)})\n"


def _name_of(file: Path) -> str:
    name = file.name
    for ending in (".gz", ".zst", ".xz", ".bz2", ".tar", ".tgz"):
        name = name.removesuffix(ending)
    return name


def _size(count: int) -> str:
    return f"{count / 1024**2:.1f} MiB"
