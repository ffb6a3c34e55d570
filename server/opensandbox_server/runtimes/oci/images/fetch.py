# SPDX-License-Identifier: Apache-2.0
"""Get images from elsewhere with the program made for it: skopeo."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import platform
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opensandbox_server.host.programs import find_tool, tool_environment
from opensandbox_server.runtimes.base import RuntimeFault
from opensandbox_server.runtimes.oci.image import Image
from opensandbox_server.runtimes.oci.images.archive import docker_architecture, read_image

if TYPE_CHECKING:
    from opensandbox_server.runtimes.oci.images.store import ImageStore

_ADVICE = {
    ("manifest unknown", "name unknown", "not found"): (
        "the registry has no such image; look at its name and its tag"
    ),
    ("unauthorized", "denied", "authentication required", "invalid username/password"): (
        "the registry wants a login that may read it; give one with: opensandbox-server images "
        "pull --username NAME {name}"
    ),
    ("HTTP response to HTTPS client", "certificate"): (
        "the registry cannot be trusted ({reason}); it needs HTTPS with a certificate that this "
        "machine knows"
    ),
    ("dial tcp", "i/o timeout", "no such host"): (
        "the registry cannot be reached ({reason}); look at its name and port"
    ),
    ("invalid reference format",): "this is no name of an image; they look like registry/name:tag",
}
"""What skopeo says → what to do about it."""


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


def _pull(store: ImageStore, name: str, login: tuple[str, str] | None) -> Image:
    with tempfile.TemporaryDirectory(prefix="opensandbox-pull-") as place:
        words = ["copy", "--quiet", f"docker://{name}", f"oci:{place}/image:latest"]
        if is_on_this_machine(name):
            words[1:1] = ["--src-tls-verify=false"]
        if login:
            words[1:1] = ["--authfile", _write_login(Path(place), name, login)]
        try:
            _run("skopeo", words)
        except FetchFailed as fault:
            raise FetchFailed(explain_pull(name, str(fault))) from fault
        architecture = docker_architecture(platform.machine())
        return store.add(name, lambda root: read_image(Path(place) / "image", root, architecture))


def is_on_this_machine(name: str) -> bool:
    """Say whether an image comes from a registry on a loopback address, where HTTP is no risk."""
    registry = name.split("/", 1)[0]
    host = (registry.rpartition(":")[0] or registry).strip("[]")
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def explain_pull(name: str, said: str) -> str:
    """Say what skopeo said, and what to do next."""
    found = re.search(r'msg="((?:[^"\\]|\\.)*)"', said)
    message = found[1].replace('\\"', '"') if found else said
    return f"cannot pull {name}: {_advice(name, message)}"


def _advice(name: str, message: str) -> str:
    for words, advice in _ADVICE.items():
        if any(word in message for word in words):
            return advice.format(name=name, reason=message.rpartition(": ")[2])
    return message


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


def _run(program: str, words: Sequence[str]) -> None:
    found = find_tool(program)
    if found is None:
        raise FetchFailed(f"{program} is not installed; apt-get install {program}")
    done = subprocess.run(
        [found, *words], capture_output=True, text=True, check=False, env=tool_environment()
    )
    if done.returncode:
        raise FetchFailed(f"{program} failed: {done.stderr.strip()[-2000:]}")
