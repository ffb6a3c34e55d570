# SPDX-License-Identifier: Apache-2.0
"""A real registry on loopback, and a tiny image to put into it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opensandbox_server.runtimes.oci.images.archive import docker_architecture

PROGRAM = Path(__file__).parent / "registry"
TOOLS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox/tools/bin"
APPLETS = ("sh", "sleep", "cat", "id", "ls", "stat")


def build_registry(place: Path) -> Path:
    """Build the program from its Go source."""
    environ = os.environ | {"PATH": f"{TOOLS}:{os.environ['PATH']}", "GOTOOLCHAIN": "local"}
    program = place / "registry"
    build = ["go", "build", "-trimpath", "-o", str(program), "."]
    subprocess.run(build, cwd=PROGRAM, env=environ | {"CGO_ENABLED": "0"}, check=True)
    return program


@contextlib.contextmanager
def serving_registry(program: Path, login: str = "") -> Iterator[str]:
    """Run a registry; gives its address."""
    flags = ["-login", login] if login else []
    with subprocess.Popen(
        [program, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.terminate()


def make_image(file: Path) -> None:
    """Write an image with busybox, as `docker save` does; its second layer hides a file."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed; apt-get install busybox-static")
    first = _tar({"bin/busybox": Path(busybox).read_bytes(), "etc/hidden": b"secret"}, APPLETS)
    second = _tar({"etc/.wh.hidden": b"", "etc/said": b"from the registry\n"})
    sums = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in (first, second)]
    config: dict[str, Any] = {
        "architecture": docker_architecture(platform.machine()),
        "os": "linux",
        "config": {"Env": ["COLOUR=green"], "WorkingDir": "/etc", "User": "7:8"},
        "rootfs": {"type": "layers", "diff_ids": sums},
    }
    manifest = [{"Config": "config.json", "RepoTags": [], "Layers": ["0.tar", "1.tar"]}]
    documents = {"config.json": json.dumps(config).encode(), "0.tar": first, "1.tar": second}
    file.write_bytes(_tar({"manifest.json": json.dumps(manifest).encode(), **documents}))


def push(file: Path, name: str, login: str = "") -> None:
    """Put an image into a registry."""
    words = ["skopeo", "copy", "--quiet", "--dest-tls-verify=false"]
    words += ["--dest-creds", login] if login else []
    subprocess.run([*words, f"docker-archive:{file}", f"docker://{name}"], check=True)


def _tar(files: dict[str, bytes], applets: tuple[str, ...] = ()) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.mode, member.size = 0o755, len(content)
            archive.addfile(member, io.BytesIO(content))
        for applet in applets:
            member = tarfile.TarInfo(f"bin/{applet}")
            member.type, member.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(member)
    return buffer.getvalue()
