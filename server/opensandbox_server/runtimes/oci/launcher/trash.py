# SPDX-License-Identifier: Apache-2.0
"""The trash: what is deleted goes there by one rename, and one process empties it when all is idle.

Sandboxes made what is in it, so nobody knows how much there is. Nothing waits for it: no request,
no start and no end of a launcher. What a launcher leaves in it the next one removes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import signal
import sys
import threading
from pathlib import Path

from opensandbox_server.host.full_disk import is_full
from opensandbox_server.runtimes.oci.launcher import empty_trash
from opensandbox_server.runtimes.oci.launcher.records import remove_tree

PATIENCE_SECONDS = 5.0
"""How long it waits for an idle moment: a machine may be busy for ever, and its disk has an end."""
AGAIN_SECONDS = 60.0
"""Between two attempts at what could not be removed."""
CLOSE_SECONDS = 2.0
"""How long the end of a launcher may take to remove what is left, if it is little."""


class Trash:
    """Takes directories at once and removes them in its own time."""

    def __init__(self, sandboxes: Path) -> None:
        """Keep the trash beside sandboxes, or in it where that is another file system."""
        self._places = trash_places(sandboxes)
        self._changed = threading.Condition()
        self._is_wanted = True  # a former launcher may have left something
        self._is_closing = False
        self._worker: tuple[int, int] | None = None
        self._thread = threading.Thread(target=self._run, name="trash", daemon=True)

    def open(self) -> None:
        """Begin to remove what is there."""
        self._places[0].mkdir(mode=0o700, exist_ok=True)
        self._thread.start()

    def put(self, directory: Path) -> None:
        """Make a directory go from its place, now, and from the disk later; repeats safely."""
        try:
            put_aside(directory, self._places)
        except OSError as fault:
            if not is_full(fault):
                raise
            remove_tree(directory)  # no room even for another name
        with self._changed:
            self._is_wanted = True
            self._changed.notify_all()

    def close(self) -> None:
        """Remove what is quickly removed and leave the rest to the next launcher."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            if self._worker:
                _hurry(self._worker[0])
            self._changed.wait_for(lambda: not self._worker and not self._is_wanted, CLOSE_SECONDS)
            self._is_wanted = False
            if self._worker:
                signal.pidfd_send_signal(self._worker[1], signal.SIGKILL)
        self._thread.join()

    def _run(self) -> None:
        is_stuck = False
        while True:
            with self._changed:
                again = AGAIN_SECONDS if is_stuck else None
                self._changed.wait_for(lambda: self._is_wanted or self._is_closing, again)
                if self._is_closing and not self._is_wanted:
                    return
                self._is_wanted = False
                try:
                    self._worker = self._spawn()
                except OSError as fault:  # the next put, or a minute, tries again
                    print(f"the trash cannot be emptied: {fault}", file=sys.stderr)
                    is_stuck = True
                    continue
            is_stuck = self._wait() != 0

    def _spawn(self) -> tuple[int, int]:
        places = [str(place) for place in self._places if place.is_dir()]
        words = [sys.executable, "-I", "-S", empty_trash.__file__, *places]
        pid = os.posix_spawn(sys.executable, words, {})
        if not self._is_closing:
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        return pid, os.pidfd_open(pid)

    def _wait(self) -> int:
        assert self._worker
        pid, pidfd = self._worker
        end = select.poll()
        end.register(pidfd, select.POLLIN)
        if not end.poll(PATIENCE_SECONDS * 1000):
            _hurry(pid)
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
        with self._changed:  # until here the number is surely its own
            self._worker = None
            _, status = os.waitpid(pid, 0)
            os.close(pidfd)
            self._changed.notify_all()
        return status


def trash_places(sandboxes: Path) -> tuple[Path, Path]:
    """Return where the trash is, and where on a disk that holds nothing but sandboxes."""
    return sandboxes.parent / "trash", sandboxes / ".trash"


def put_aside(directory: Path, places: tuple[Path, Path]) -> None:
    """Rename a directory into the first of the places, or the second on another file system."""
    for place in places:
        place.mkdir(mode=0o700, exist_ok=True)
        try:
            _rename(directory, place / secrets.token_hex(16))
        except FileNotFoundError:
            return
        except OSError as fault:
            if fault.errno != errno.EXDEV or place == places[-1]:
                raise
        else:
            return


def _rename(directory: Path, target: Path) -> None:
    try:
        directory.rename(target)
    except PermissionError:  # somebody used chattr
        descriptor = os.open(directory, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            empty_trash.unlock(descriptor)
        finally:
            os.close(descriptor)
        directory.rename(target)


def _hurry(pid: int) -> None:
    """Give a worker the share of any other process; the disk it still uses last."""
    with contextlib.suppress(ProcessLookupError):
        os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))
