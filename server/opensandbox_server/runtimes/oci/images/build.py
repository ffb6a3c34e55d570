# SPDX-License-Identifier: Apache-2.0
"""Build an image from its recipe with mmdebstrap, which makes a Debian and runs the steps in it."""

from __future__ import annotations

import asyncio
import collections
import hashlib
import os
import shlex
import shutil
import ssl
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from opensandbox_server.host.programs import find_tool, tool_environment
from opensandbox_server.runtimes.oci.image import Image
from opensandbox_server.runtimes.oci.images.fetch import FetchFailed
from opensandbox_server.runtimes.oci.images.recipe import FAMILY, Recipe, Step, read_recipe
from opensandbox_server.runtimes.oci.images.store import ImageStore

Say = Callable[[str], None]

MIRRORS = ("http://deb.debian.org/debian", "http://deb.debian.org/debian-security")
SBOM = "usr/share/opensandbox/sbom.cdx.json"
"""Where a recipe leaves the list of what is in the image."""
_MARK = "opensandbox-step: "
_TRUSTED = "run/certificates.crt"
"""Whom this machine trusts, while the root is built; mmdebstrap empties /run at the end."""
_PASSED_ON = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT_LINES = 40
_TOLD_LINES = 5


async def build_image(
    store: ImageStore,
    name: str,
    say: Say = lambda _: None,
    *,
    given: Mapping[str, str] | None = None,
    mirror: str = "",
) -> Image:
    """Make the image opensandbox/NAME from its recipe; say tells how far it is.

    Raises BadRecipe, or FetchFailed when a step fails or this machine cannot build.
    """
    recipe = read_recipe(name, given or {}, os.environ)
    programs = _programs()

    def fill(root: Path) -> Image:
        _run([*programs, *arguments(recipe, root, mirror)], recipe.steps, say)
        return _describe(recipe, root)

    return await asyncio.to_thread(store.add, f"{FAMILY}/{name}", fill)


def arguments(recipe: Recipe, root: Path, mirror: str) -> list[str]:
    """Return what to tell mmdebstrap."""
    trusted = _certificates()
    hooks = [f'cp {shlex.quote(trusted)} "$1/{_TRUSTED}"'] if trusted else []
    for number, step in enumerate(recipe.steps, 1):
        says = f"echo {shlex.quote(_MARK + str(number))}"
        hooks.append(f"{says}; {_copy(step) if step.target else _call(step)}")
    hooks.append('rm -f "$1/etc/hostname" "$1/etc/resolv.conf"')  # mmdebstrap took this machine's
    words = ["--mode=root", "--variant=minbase"]
    words += [f"--customize-hook={hook}" for hook in hooks]
    return [*words, recipe.suite, str(root), *sources(recipe.suite, mirror)]


def sources(suite: str, mirror: str) -> list[str]:
    """Return where packages come from: one mirror, or Debian's own with its updates."""
    if mirror:
        return [f"deb {mirror} {suite} main"]
    main, security = MIRRORS
    return [
        f"deb {main} {suite} main",
        f"deb {main} {suite}-updates main",
        f"deb {security} {suite}-security main",
    ]


def digest_of(root: Path) -> tuple[str, int]:
    """Return a checksum over names, owners, modes and contents below root, and the files' size."""
    total = 0
    whole = hashlib.sha256()
    for path in _walk(root):
        seen = path.lstat()
        whole.update(os.fsencode(path.relative_to(root)) + b"\0")
        whole.update(f"{seen.st_mode:o} {seen.st_uid} {seen.st_gid}\0".encode())
        if stat.S_ISLNK(seen.st_mode):
            whole.update(os.fsencode(path.readlink()))
        elif stat.S_ISREG(seen.st_mode):
            total += seen.st_size
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{whole.hexdigest()}", total


def _walk(root: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(root):
        names.sort()
        for name in sorted([*names, *files]):
            yield Path(directory, name)


def _programs() -> list[str]:
    """Find what builds. Its processes and mounts are seen by nobody else and go with this one."""
    if os.geteuid() != 0:
        raise FetchFailed("images are built as root; run the command with sudo")
    packages = {"setpriv": "util-linux", "unshare": "util-linux", "mmdebstrap": "mmdebstrap"}
    found = {program: find_tool(program) for program in packages}
    if missing := [program for program, place in found.items() if place is None]:
        wanted = " ".join(sorted({packages[program] for program in missing}))
        raise FetchFailed(f"not installed: {', '.join(missing)}; apt-get install {wanted}")
    setpriv, unshare, mmdebstrap = map(str, found.values())
    spaces = [unshare, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [setpriv, "--pdeathsig", "KILL", *spaces, mmdebstrap]


def _certificates() -> str | None:
    """Return the file with whom this machine trusts; a proxy in between may be one of them."""
    usual = "/etc/ssl/certs/ca-certificates.crt"
    named = ssl.get_default_verify_paths().cafile
    return named or (usual if Path(usual).is_file() else None)


def _copy(step: Step) -> str:
    target = f'"$1"{shlex.quote(step.target)}'
    source = shlex.quote(f"{step.source}/.")
    return f"mkdir -p {target} && cp -R --no-preserve=ownership {source} {target}"


def _call(step: Step) -> str:
    env = {"HOME": "/root", "PATH": _PATH}
    if _certificates():
        env |= {"SSL_CERT_FILE": f"/{_TRUSTED}", "PIP_CERT": f"/{_TRUSTED}"}
    env |= {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    pairs = [f"{name}={value}" for name, value in (env | dict(step.env)).items()]
    command = f"mkdir -p {shlex.quote(step.cwd)} && cd {shlex.quote(step.cwd)} && {step.shell}"
    return 'chroot "$1" ' + shlex.join(["/usr/bin/env", "-i", *pairs, "/bin/sh", "-c", command])


def _run(command: Sequence[str], steps: Sequence[Step], say: Say) -> None:
    last = collections.deque[str](maxlen=_KEPT_LINES)
    doing = "a minimal Debian"
    began = time.monotonic()
    total = len(steps) + 1
    say(f"1/{total} {doing}")
    with subprocess.Popen(
        command,
        env=tool_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        assert running.stdout
        for line in running.stdout:
            text = line.decode(errors="replace").strip()
            if text.startswith(_MARK):
                number = int(text.removeprefix(_MARK))
                doing = steps[number - 1].instruction
                say(f"{number + 1}/{total} {doing} ({time.monotonic() - began:.0f} s)")
            elif text:
                last.append(text)
    if running.returncode:
        raise FetchFailed(f"mmdebstrap failed at {doing}: {_errors_in(last)}")
    say(f"built in {time.monotonic() - began:.0f} s")


def _errors_in(lines: Sequence[str]) -> str:
    """Leave out how far a program came, and what mmdebstrap adds at its own end."""
    own = ("I: ", "W: ", "E: setup failed", "E: command failed", "E: mmdebstrap failed")
    told = [line.removeprefix("E: ") for line in lines if not line.startswith(own)]
    return "; ".join((told or list(lines))[-_TOLD_LINES:])


def _describe(recipe: Recipe, root: Path) -> Image:
    """Finish what was built: leave out devices, as for every image, and put the list beside it."""
    for device in (root / "dev").iterdir():
        if device.is_dir() and not device.is_symlink():
            shutil.rmtree(device)
        else:
            device.unlink()
    shutil.copyfile(root / SBOM, root.parent / Path(SBOM).name)
    digest, size = digest_of(root)
    return Image(
        name="",
        rootfs=root,
        env=recipe.env,
        entrypoint=recipe.command,
        cwd=recipe.cwd,
        created=time.time(),
        size_bytes=size,
        digest=digest,
    )
