# SPDX-License-Identifier: Apache-2.0
"""The Python pack: an interpreter with IPython that sandboxes of the image `host` see read-only.

It is made of what runs and is installed beside this server, so nothing is downloaded. Where the
interpreter is one that sandboxes see anyway, the pack is a virtual environment on it; else it has a
copy of the interpreter. A pack never changes: its directory is named for what is in it, and shared
by all servers of this machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path

from opensandbox_server.runtimes.oci.image import PACK
from opensandbox_server.runtimes.oci.images.distributions import (
    NotInstalled,
    files_of,
    fingerprint,
    with_requirements,
)
from opensandbox_server.runtimes.oci.images.interpreter import (
    CannotMove,
    Interpreter,
    check_moved,
    copy_interpreter,
    own_interpreter,
)

log = logging.getLogger(__name__)

MAIN = "ipython"
_VERSION = "2"
"""Changes when packs are made in another way."""
_LIST = "pack.json"
"""In a pack: what every file of it is, with its sum."""
_USERS = "users"
"""In a cache: links to the directories of images that take packs from it."""
GRACE_SECONDS = 3600.0
"""How long a pack may be wanted before there is an image that names it."""
_NOT_COMPILED = r"/pygments/(lexers|styles)/|/lib2to3/|/ensurepip/"
"""Hundreds of modules of which a program needs none or one."""


class NoPack(Exception):
    """This installation cannot give sandboxes a Python; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pack would be made of."""

    interpreter: Interpreter
    distributions: tuple[Distribution, ...]
    key: str

    def __str__(self) -> str:
        """Say it as a person would."""
        main = next(one for one in self.distributions if one.metadata["Name"].lower() == MAIN)
        return f"Python {self.interpreter.version} with IPython {main.version}"


def plan_pack() -> Plan:
    """Look what is installed; fast. Raises NoPack."""
    interpreter = own_interpreter()
    try:
        distributions = tuple(with_requirements(MAIN))
        parts = [fingerprint(one) for one in distributions]
        parts += [_VERSION, str(interpreter.is_visible), *interpreter.fingerprint()]
    except (NotInstalled, OSError) as fault:
        raise NoPack(f"{fault}; install opensandbox-server again") from fault
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return Plan(interpreter, distributions, key)


def place_pack(plan: Plan, caches: tuple[Path, ...], images: Path) -> Path:
    """Return the pack, made now if it is not there; it stays while an image in images names it.

    It is kept in the first of the caches that can be written. Raises NoPack, and OSError when there
    is no room. Blocks.
    """
    cache = _usable(caches)
    with _locked(cache):
        pack = cache / f"python-{plan.key}"
        if not is_whole(pack):
            shutil.rmtree(pack, ignore_errors=True)
            _sweep(cache)
            _make(plan, pack)
        os.utime(pack)
        _register(cache / _USERS, images)
    return pack


def is_whole(pack: Path) -> bool:
    """Say whether a pack is as it was made, and nobody else can change it; reads all of it.

    The machine may have lost power, its disk be damaged, or somebody have written there.
    """
    try:
        listed = json.loads((pack / _LIST).read_text())
        paths = (pack.parent.resolve(), pack, *pack.rglob("*"))
        is_ours = all(_is_ours_alone(path) for path in paths)
        return is_ours and bool(listed == _contents(pack))
    except (OSError, ValueError):
        return False


def _contents(pack: Path) -> dict[str, str]:
    paths = (path for path in pack.rglob("*") if path != pack / _LIST)
    return {str(path.relative_to(pack)): _described(path) for path in paths}


def _described(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    mode = f"{path.stat().st_mode:o}"
    if not path.is_file():
        return mode
    with path.open("rb") as file:
        return f"{mode} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _is_ours_alone(path: Path) -> bool:
    """Say that nobody else can write it: what is in a pack runs in every sandbox of its image."""
    status = path.lstat()
    is_closed = stat.S_ISLNK(status.st_mode) or not status.st_mode & 0o022
    return is_closed and status.st_uid in (0, os.geteuid())


def _usable(caches: tuple[Path, ...]) -> Path:
    fault: OSError | None = None
    for cache in caches:
        try:
            cache.mkdir(mode=0o755, parents=True, exist_ok=True)
            (cache / _USERS).mkdir(mode=0o755, exist_ok=True)
            if not all(_is_ours_alone(path.resolve()) for path in (cache, cache / _USERS)):
                log.warning("%s is not used: others can write there (chmod go-w, chown)", cache)
                fault = PermissionError(f"others can write {cache}")
                continue
        except OSError as found:
            fault = found
            continue
        if os.access(cache, os.W_OK):
            return cache
    raise fault or PermissionError(f"{' and '.join(map(str, caches))} cannot be written")


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Wait for another server that makes or removes packs; a killed one holds nothing."""
    lock = os.open(cache / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _register(users: Path, images: Path) -> None:
    """Remember a directory of images, so that what they need is not swept; forget former ones."""
    for known in users.iterdir():
        if not known.exists():
            known.unlink(missing_ok=True)
    link = users / hashlib.sha256(os.fsencode(images)).hexdigest()[:16]
    if not link.is_symlink():
        link.symlink_to(images.absolute())


def _sweep(cache: Path) -> None:
    """Remove packs that no image of any server names, and what a killed server left."""
    for left in cache.glob(".new-*"):
        shutil.rmtree(left, ignore_errors=True)
    named: set[str] = set()
    for link in (cache / _USERS).iterdir():
        named |= _named_in(link)
    for pack in cache.glob("python-*"):
        is_new = time.time() - pack.stat().st_mtime < GRACE_SECONDS
        if str(pack) not in named and not is_new:
            shutil.rmtree(pack, ignore_errors=True)


def _named_in(images: Path) -> set[str]:
    """Return the packs that images name, those included that are only kept for their sandboxes."""
    found = set()
    for pattern in ("*/image.json", ".old-*/image/image.json"):
        for description in images.glob(pattern):
            with contextlib.suppress(OSError, ValueError):
                found.add(str(json.loads(description.read_text()).get("pack")))
    return found


def _make(plan: Plan, pack: Path) -> None:
    log.info("making %s for the image host, once; this takes some seconds", plan)
    began = time.monotonic()
    fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=pack.parent))
    try:
        _fill(plan, fresh)
        fresh.rename(pack)
    except (CannotMove, NotInstalled) as fault:
        raise NoPack(
            f"{plan.interpreter.program} cannot be given to sandboxes: {fault}; "
            "run the server with another Python, the distribution's or uv's"
        ) from fault
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    log.info("made %s in %.1f s: %s", plan, time.monotonic() - began, pack)


def _fill(plan: Plan, pack: Path) -> None:
    interpreter = plan.interpreter
    if interpreter.is_visible:
        _make_environment(interpreter, pack)
    else:
        copy_interpreter(interpreter, pack)
    for name in ("python3", "python"):
        (pack / "bin" / name).symlink_to(interpreter.name)
    packages = pack / "lib" / interpreter.name / "site-packages"
    for distribution in plan.distributions:
        for place, source in files_of(distribution):
            (packages / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, packages / place)
    _write_ipython(pack / "bin" / "ipython")
    _compile(pack)
    check_moved(pack, "IPython")
    _open_to_all(pack)
    (pack / _LIST).write_text(json.dumps(_contents(pack)))
    (pack / _LIST).chmod(0o644)


def _make_environment(interpreter: Interpreter, pack: Path) -> None:
    (pack / "bin").mkdir()
    (pack / "bin" / interpreter.name).symlink_to(interpreter.program)
    home = interpreter.program.parent
    (pack / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")


def _write_ipython(script: Path) -> None:
    start = "import sys\nfrom IPython import start_ipython\nsys.exit(start_ipython())\n"
    script.write_text(f"#!{PACK}/bin/python3\n{start}")
    script.chmod(0o755)


def _compile(pack: Path) -> None:
    """Compile ahead: sandboxes cannot write here, and would do it again in each process."""
    words = ["-I", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    done = subprocess.run(
        [pack / "bin" / "python3", *words, "-x", _NOT_COMPILED, pack / "lib"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-500:]
        if "No space left" in said:
            raise OSError(f"No space left on device: {pack.parent}")
        raise CannotMove(f"its modules cannot be compiled: {said}")


def _open_to_all(pack: Path) -> None:
    """Let everybody read, whatever the umask is and however the files were installed."""
    pack.chmod(0o755)
    for path in pack.rglob("*"):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)
