# SPDX-License-Identifier: Apache-2.0
"""Disks of a virtual machine: the root, kept by its content, and this clone's own files."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.vm.progress import VMError, step
from tests.vm.recipe import (
    CLONE,
    ENVIRONMENT,
    FILES,
    ROOT,
    Suite,
    fingerprint,
    mmdebstrap,
    requirements,
)

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox"
ROOT_SIZE = "12G"
CLONE_SIZE = "1G"
_TOLD_LINES = 15


@dataclass(frozen=True)
class Image:
    """A root that boots; never written to."""

    directory: Path

    @property
    def root(self) -> Path:
        """The root file system, an ext4 in a file with holes."""
        return self.directory / "root.ext4"

    @property
    def kernel(self) -> Path:
        """Debian's kernel."""
        return self.directory / "vmlinuz"

    @property
    def initial(self) -> Path:
        """The initial file system, which finds the root."""
        return self.directory / "initrd"


def build_image(suite: Suite) -> Image:
    """Return the image of a suite, made now unless it is there."""
    image = Image(CACHE / f"vm-{suite.name}-{fingerprint(suite)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    with _only_one(suite):
        if not image.directory.exists():
            if os.geteuid() != 0:
                raise VMError("only root can make a root file system; try: sudo make vm-test")
            with tempfile.TemporaryDirectory(dir=CACHE, prefix=".vm-") as scratch:
                _make(suite, image, Path(scratch))
    return image


def _make(suite: Suite, image: Image, scratch: Path) -> None:
    root, made, additions = scratch / "root", scratch / "made", scratch / "additions"
    made.mkdir()
    with step("Python packages"):
        _add_environment(suite, additions)
    for name, text in FILES.items():
        (additions / name).parent.mkdir(parents=True, exist_ok=True)
        (additions / name).write_text(text)
    _copy_clone(additions / CLONE[1:])  # for the time of the making
    with step(f"Debian {suite.number}"):
        _run(mmdebstrap(suite, root, additions))
    with step("root file system"):
        for file, name in ((image.kernel, "vmlinuz-*"), (image.initial, "initrd.img-*")):
            (found,) = (root / "boot").glob(name)
            shutil.copyfile(found, made / file.name)
        _make_ext4(root, made / image.root.name, "root", ROOT_SIZE)
    made.rename(image.directory)


def _add_environment(suite: Suite, additions: Path) -> None:
    """Make a virtual environment for the Python of the suite, whatever runs here."""
    home = additions / ENVIRONMENT[1:]
    packages = home / f"lib/python{suite.python}/site-packages"
    wanted, constraints = requirements()
    listed = additions.with_name("constraints.txt")
    listed.write_text("\n".join(constraints))
    _run(
        [
            *(str(CACHE / "tools/bin/uv"), "pip", "install", "--quiet", "--target", str(packages)),
            *("--python", sys.executable, "--python-version", suite.python),
            *("--python-platform", "x86_64-manylinux_2_36", "--constraint", str(listed), *wanted),
        ]
    )
    (home / "bin").mkdir()
    (home / "bin/python").symlink_to(f"/usr/bin/python{suite.python}")
    (home / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {suite.python}\n")
    for file in packages.glob("*.pth"):
        file.write_text(file.read_text().replace(str(ROOT), CLONE))
    # They stay where uv says they are: packages are copied by that.
    for script in (packages / "bin").iterdir():
        _, _, rest = script.read_text().partition("\n")
        script.write_text(f"#!{ENVIRONMENT}/bin/python\n{rest}")
        (home / "bin" / script.name).symlink_to(f"/{script.relative_to(additions)}")


def make_clone_disk(suite: Suite, disk: Path) -> None:
    """Write the files of this clone, and the programs built in it, to a disk."""
    with tempfile.TemporaryDirectory(prefix="vm-clone-") as scratch:
        place = Path(scratch) / "clone"
        _copy_clone(place)
        (place / ".venv").symlink_to(ENVIRONMENT)
        if suite.python == f"{sys.version_info.major}.{sys.version_info.minor}":
            # The machine would take half a minute for it.
            _run(
                [
                    sys.executable,
                    "-m",
                    "compileall",
                    "-q",
                    "-s",
                    str(place),
                    "-p",
                    CLONE,
                    str(place),
                ]
            )
        _make_ext4(place, disk, "clone", CLONE_SIZE)


def _copy_clone(place: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for name in [*listed.split("\0")[:-1], "build/execd", "build/ingress"]:
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name, follow_symlinks=False)


def _make_ext4(source: Path, disk: Path, label: str, size: str) -> None:
    disk.unlink(missing_ok=True)
    _run(["/sbin/mke2fs", "-q", "-t", "ext4", "-L", label, "-d", str(source), str(disk), size])


def _run(words: Sequence[str]) -> None:
    try:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
    except FileNotFoundError:
        raise VMError(f"not installed: {words[0]}; run scripts/setup vm") from None
    with process:
        try:
            said, _ = process.communicate()
        except BaseException:
            # What it works on is removed next: it must have ended, with all it started.
            process.terminate()
            raise
    if process.returncode:
        told = "\n".join(said.strip().splitlines()[-_TOLD_LINES:])
        raise VMError(f"{words[0]} failed with status {process.returncode}:\n{told}")


@contextmanager
def _only_one(suite: Suite) -> Iterator[None]:
    with (CACHE / f"vm-{suite.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
