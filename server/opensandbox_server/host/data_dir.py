# SPDX-License-Identifier: Apache-2.0
"""The data directory: one server at a time, private to its user."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opensandbox_server.errors import StartupError
from opensandbox_server.host.ballast import Ballast

_MAY_BE_THERE = {"lost+found", "run", "images", "sandboxes", "cache", "opensandbox.db"}
"""In a directory that was never served from: what a new disk has, and what other commands make."""


@dataclass(frozen=True, slots=True)
class DataDir:
    """Where everything is that the server keeps."""

    root: Path

    @property
    def run(self) -> Path:
        """Sockets; ingress may enter, sandboxes never see it."""
        return self.root / "run"

    @property
    def api_key(self) -> Path:
        """The key made at the first start."""
        return self.root / "api_key"

    @property
    def signing_key(self) -> Path:
        """The key that signs routes, when the config names none."""
        return self.root / "signing_key"

    @property
    def ballast(self) -> Ballast:
        """What is held in reserve of its disk."""
        return Ballast(self.root / "ballast")

    def id(self) -> str:
        """Return what tells this data directory from all others, made when it is asked for first.

        Raises StartupError.
        """
        return read_or_make_secret(self.root / "id")[0]


@contextlib.contextmanager
def open_data_dir(root: Path, ingress_gid: int | None) -> Iterator[DataDir]:
    """Make the directory and hold it until the end. Raises StartupError when another does."""
    data = DataDir(root)
    make_private(root)
    with _faults_of_disk(root):
        data.run.mkdir(mode=0o750, exist_ok=True)
        lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with _faults_of_disk(root):
            _take(lock, root)
            if ingress_gid is not None:
                os.chown(data.run, -1, ingress_gid)
        yield data
    finally:
        os.close(lock)


def make_private(root: Path) -> None:
    """Have the directory, entered by nobody but us. Raises StartupError when that cannot be had.

    Images keep the set-uid programs of the host's root, and sandboxes files that all may read:
    whoever gets in here could run the ones and read the others. A new disk is open to all.
    """
    with _faults_of_disk(root):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if who_else_may_enter(root) and _is_for_us_alone(root):
            root.chmod(0o700)
        if problem := who_else_may_enter(root):
            raise StartupError(
                f"cannot use the data directory {root}: {problem[0]}; {problem[1]}, or choose "
                "another with server.data_dir"
            )


def who_else_may_enter(root: Path) -> tuple[str, str] | None:
    """Say why a directory is not private to this user, and what fixes it; None when it is."""
    found, own = root.stat(), os.geteuid()
    if found.st_uid != own:
        return f"it belongs to user {found.st_uid}, not to {own}", f"chown {own} {root}"
    if others := stat.S_IMODE(found.st_mode) & 0o077:
        return f"others may use it (mode bits {others:03o})", f"chmod 0700 {root}"
    return None


def _is_for_us_alone(root: Path) -> bool:
    """Tell a data directory, or one that may become one, from /srv or somebody's home."""
    if root.stat().st_uid != os.geteuid() or root.stat().st_mode & stat.S_ISVTX:
        return False
    names = {entry.name for entry in root.iterdir()}
    return "lock" in names or names <= _MAY_BE_THERE


@contextlib.contextmanager
def _faults_of_disk(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise StartupError(
            f"cannot use the data directory {root}: {fault.strerror}; fix it, or choose another "
            "with server.data_dir"
        ) from fault


def _take(lock: int, root: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as fault:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
        who = f" (process {holder})" if holder else ""
        raise StartupError(
            f"the data directory {root} is in use by another server{who}; "
            "stop it, or choose another with server.data_dir"
        ) from fault
    DataDir(root).ballast.make_room()  # a server must start on a full disk, to end who filled it
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def read_or_make_secret(path: Path) -> tuple[str, bool]:
    """Return the secret kept at path, for its owner alone, and whether it was made just now.

    Raises StartupError.
    """
    with contextlib.suppress(FileNotFoundError):
        if kept := path.read_text(encoding="ascii").strip():
            return kept, False
    secret = secrets.token_urlsafe(32)
    fresh = path.with_name(path.name + ".new")
    with _faults_of_disk(path.parent):
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secret + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    return secret, True
