# SPDX-License-Identifier: Apache-2.0
"""The output of entrypoints: read from pipes as it comes, the last of it kept.

Each sandbox writes into a named pipe that it holds open for reading too, so the end of a launcher
never ends a sandbox: its pipe fills up, and the next launcher reads on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PIPE_BYTES = 1024 * 1024
KEPT_BYTES = 512 * 1024
"""At least this much of the end of the output is kept, at most twice of it."""
POSITION = "log.position"
"""Says how much was written before what is in the log, and which file that log is."""
READ_BYTES = 256 * 1024
"""Read at a time, so that the others' turn comes soon."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes per second: of one sandbox, of all together, and what each has even if others took all.

    The thread that reads works for all sandboxes and is paid for by none.
    """

    own: int
    all: int
    least: int = 64 * 1024

    def allows(self, own: int, total: int) -> bool:
        """Say whether more may come after so many bytes of this second."""
        return own < self.least or (own < self.own and total < self.all)


READ = Budget(64 * 1024 * 1024, 128 * 1024 * 1024)
"""Whoever writes faster waits for the next second."""
KEPT = Budget(4 * 1024 * 1024, 16 * 1024 * 1024)
"""What of it goes into the logs; the rest is dropped."""


def make_pipe(directory: Path, owner: int) -> None:
    """Make the pipe of a sandbox, and the file it is read into."""
    os.mkfifo(directory / "output", 0o600)
    os.chown(directory / "output", owner, owner)  # programs open /dev/stdout again
    (directory / "log").touch(mode=0o600)


def open_pipe(directory: Path) -> int:
    """Open the pipe for the sandbox, which reads it too: see above."""
    descriptor = os.open(directory / "output", os.O_RDWR | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # more than an operator lets one user have
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return descriptor


def read_log(directory: Path, limit: int) -> bytes:
    """Return the last limit bytes of what is kept."""
    kept = b""
    for name in ("log.1", "log"):
        with contextlib.suppress(FileNotFoundError):
            kept += (directory / name).read_bytes()
    return kept[-limit:]


@dataclass(slots=True)
class _Source:
    directory: Path
    pipe: int
    file: int
    size: int
    begin: int
    """The position of the first byte in the file."""
    second: float = 0.0
    read: int = 0
    kept: int = 0
    held: bytes = b""
    """The end of what was dropped, to be kept if nothing follows."""


class Logs:
    """One thread that reads all pipes.

    A position counts what went into the log. What is dropped because it came too fast has none.
    """

    def __init__(self, tell: Callable[[str], None] = lambda _: None) -> None:
        """Start with no pipes. Who waits for more of a log is told once, by the sandbox's name."""
        self._tell = tell
        self._awaited: set[str] = set()
        self._selector = selectors.EpollSelector()
        self._sources: dict[str, _Source] = {}
        self._lock = threading.Lock()
        self._second, self._read, self._kept = 0.0, 0, 0
        self._waiting: dict[int, _Source] = {}  # for the next second
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._read_all, name="logs", daemon=True)
        self._thread.start()

    def follow(self, name: str, directory: Path) -> None:
        """Read the pipe of a sandbox from now on."""
        pipe = os.open(directory / "output", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        file = os.open(
            directory / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        begin = _begin(directory, file)
        if begin:
            _write_position(directory, begin, file)
        source = _Source(directory, pipe, file, os.fstat(file).st_size, begin)
        with self._lock:
            self._sources[name] = source
            self._selector.register(pipe, selectors.EVENT_READ, source)

    def forget(self, name: str) -> None:
        """Read what is left in the pipe and close it; repeats safely."""
        with self._lock:
            source = self._sources.pop(name, None)
            if source is None:
                return
            self._leave(source)
            left = source.held
            with contextlib.suppress(BlockingIOError):
                left += os.read(source.pipe, PIPE_BYTES)
            self._keep(source, left[-KEPT_BYTES:])
            self._waiting.pop(source.pipe, None)
            os.close(source.pipe)
            os.close(source.file)
            self._tell_awaiting(name)

    def read(
        self, name: str, directory: Path, since: int, most: int, *, is_followed: bool
    ) -> tuple[int, bytes, bool]:
        """Return at most so many bytes, the position of the first, and whether nothing will follow.

        Who follows and gets nothing is told when there is more.
        """
        with self._lock:
            source = self._sources.get(name)
            begin = source.begin if source else None
            position, data = _read_kept(directory, since, most, begin)
            if is_followed and source and not data:
                self._awaited.add(name)
            return position, data, source is None

    def close(self) -> None:
        """Stop reading."""
        os.write(self._wake_write, b"x")
        self._thread.join()
        for name in list(self._sources):
            self.forget(name)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _read_all(self) -> None:
        while True:
            with self._lock:
                pause = self._until_next_second()
            for key, _ in self._selector.select(pause):
                source: _Source | None = key.data
                if source is None:
                    return
                with self._lock:
                    if self._sources.get(source.directory.name) is source:
                        self._read_one(source)

    def _until_next_second(self) -> float | None:
        """Begin another second when one is over; return how long somebody waits for the next."""
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._read, self._kept = now, 0, 0
            waiting, self._waiting = self._waiting, {}
            for pipe, source in waiting.items():
                if self._sources.get(source.directory.name) is source:
                    self._keep(source, source.held)
                    with contextlib.suppress(KeyError):  # it was only to be kept
                        self._selector.register(pipe, selectors.EVENT_READ, source)
        return self._second + 1 - now if self._waiting else None

    def _read_one(self, source: _Source) -> None:
        try:
            self._drain(source)
            if READ.allows(source.read, self._read):
                return
            self._waiting[source.pipe] = source
        except Exception:  # noqa: BLE001  # the others' output must still be read
            traceback.print_exc()
        self._leave(source)

    def _leave(self, source: _Source) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(source.pipe)

    def _drain(self, source: _Source) -> None:
        try:
            data = os.read(source.pipe, READ_BYTES)
        except BlockingIOError:
            return
        if not data:  # every writer is gone; the sandbox has ended
            self._leave(source)
            return
        if source.second != self._second:
            source.second, source.read, source.kept = self._second, 0, 0
        source.read += len(data)
        self._read += len(data)
        if KEPT.allows(source.kept, self._kept):
            self._keep(source, data)
        else:
            source.held = (source.held + data)[-READ_BYTES:]
            self._waiting[source.pipe] = source

    def _keep(self, source: _Source, data: bytes) -> None:
        source.held = b""
        source.kept += len(data)
        self._kept += len(data)
        with contextlib.suppress(OSError):  # a full disk must not stop the sandbox
            source.size += os.write(source.file, data)
            if source.size > KEPT_BYTES:
                self._rotate(source)
        if data:
            self._tell_awaiting(source.directory.name)

    def _tell_awaiting(self, name: str) -> None:
        if name in self._awaited:
            self._awaited.discard(name)
            self._tell(name)

    def _rotate(self, source: _Source) -> None:
        directory, former = source.directory, source.file
        fresh = directory / "log.new"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        source.file = os.open(fresh, flags, 0o600)
        os.close(former)
        source.begin, source.size = source.begin + source.size, 0
        _write_position(directory, source.begin, source.file)
        (directory / "log").replace(directory / "log.1")
        fresh.replace(directory / "log")


def _write_position(directory: Path, position: int, file: int) -> None:
    """Write whole where a log begins; on a full disk positions are lost, and no output."""
    with contextlib.suppress(OSError):
        written = directory / f"{POSITION}.new"
        written.write_text(f"{position} {os.fstat(file).st_ino}")
        written.replace(directory / POSITION)


def _begin(directory: Path, file: int) -> int:
    """Return the position of the first byte of a log.

    Where a rotation was cut off the position is that of the log after it, which was still empty.
    0.1.0 wrote none: then what it kept is all there was.
    """
    found = os.fstat(file)
    try:
        position, inode = map(int, (directory / POSITION).read_text().split())
    except (FileNotFoundError, ValueError):
        former = directory / "log.1"
        return former.stat().st_size if former.exists() else 0
    return position if inode == found.st_ino else max(0, position - found.st_size)


def _read_kept(directory: Path, since: int, most: int, begin: int | None) -> tuple[int, bytes]:
    """Return at most so many bytes from the position on, or from the first that is still kept."""
    position = since
    with contextlib.suppress(FileNotFoundError), (directory / "log").open("rb") as log:
        begin = _begin(directory, log.fileno()) if begin is None else begin
        position = min(since, begin + os.fstat(log.fileno()).st_size)
        if position < begin:
            with contextlib.suppress(FileNotFoundError), (directory / "log.1").open("rb") as former:
                position = max(position, begin - os.fstat(former.fileno()).st_size)
                former.seek(position - begin, os.SEEK_END)
                return position, former.read(most)
        position = max(position, begin)
        log.seek(position - begin)
        return position, log.read(most)
    return position, b""
