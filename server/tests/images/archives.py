# SPDX-License-Identifier: Apache-2.0
"""Archives of images, written for tests member by member."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from opensandbox_server.runtimes.oci.images import ImageStore, import_image

Entry = tuple[str, bytes | str | None, dict[str, Any]]


def tar_of(*entries: Entry) -> bytes:
    """Build a tar: bytes are a file, a text is a link, None is a directory or what `type` says."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content, more in entries:
            member = tarfile.TarInfo(name)
            member.mode = 0o755
            if isinstance(content, bytes):
                member.size = len(content)
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.type = tarfile.DIRTYPE
            for key, value in more.items():
                setattr(member, key, value)
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


def names(directory: Path) -> list[str]:
    """List a directory."""
    return [entry.name for entry in directory.iterdir()]


def imported(store: ImageStore, tmp_path: Path, archive: bytes, name: str = "test") -> Path:
    """Import an archive and return the root of the image."""
    file = tmp_path / "image.tar"
    file.write_bytes(archive)
    return asyncio.run(import_image(store, name, file)).rootfs


def docker_archive(*layers: bytes, config: dict[str, Any] | None = None) -> bytes:
    """Build what `docker save` writes."""
    entries: list[Entry] = [
        (f"{number}/layer.tar", layer, {}) for number, layer in enumerate(layers)
    ]
    said = json.dumps({"config": config or {}}).encode()
    manifest = [{"Config": "config.json", "Layers": [name for name, _, _ in entries]}]
    return tar_of(
        ("manifest.json", json.dumps(manifest).encode(), {}), ("config.json", said, {}), *entries
    )
