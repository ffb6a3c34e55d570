# SPDX-License-Identifier: Apache-2.0
"""The trash: whatever sandboxes made goes, in its own time, and nobody waits for it."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.launcher.rootfs import GET_FLAGS, SET_FLAGS
from opensandbox_server.runtimes.oci.launcher.trash import Trash
from server.tests.oci.traces import wait_for_empty_trash
from tests.harness.wait import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a trash of this kind")
IMMUTABLE, APPEND = 0x10, 0x20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A data directory in memory, where much is quickly made."""
    place = tmp_path / "data"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "data", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def sandboxes(disk: Path) -> Path:
    """The directory of all sandboxes."""
    (disk / "sandboxes").mkdir()
    return disk / "sandboxes"


@contextlib.contextmanager
def opened(sandboxes: Path) -> Iterator[Trash]:
    trash = Trash(sandboxes)
    trash.open()
    try:
        yield trash
    finally:
        trash.close()


def deep(directory: Path, levels: int = 10_000) -> None:
    """Make directories in one another, further down than any path can name."""
    directory.mkdir()
    parent = os.open(directory, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=parent)
        child = os.open("d", os.O_RDONLY, dir_fd=parent)
        os.close(parent)
        parent = child
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=parent))
    os.close(parent)


def long_names(directory: Path) -> None:
    """Make names as long as can be, in directories with such names."""
    place = directory
    for letter in "abcdef":
        place = place / (letter * 255)
    place.mkdir(parents=True)
    for number in range(50):
        (place / f"{number:0255}").touch()


def odd_kinds(directory: Path) -> None:
    """Make what is neither a file nor a directory, and what nobody may enter."""
    directory.mkdir()
    os.mkfifo(directory / "fifo")
    os.mknod(directory / "device", 0o20600, os.makedev(1, 3))
    (directory / "link").symlink_to("/etc")
    (directory / "closed").mkdir(mode=0)
    (directory / "bytes").mkdir()
    os.close(os.open(os.fsencode(directory) + b"/\xff\xfe", os.O_CREAT | os.O_WRONLY))


def unchangeable(directory: Path) -> None:
    """Make what `chattr` keeps even root from removing."""
    (directory / "in").mkdir(parents=True)
    (directory / "in" / "kept").write_text("x")
    (directory / "in" / "grows").write_text("x")
    if not mark(directory / "in" / "kept", IMMUTABLE):
        pytest.skip("this file system knows no immutable files")
    mark(directory / "in" / "grows", APPEND)
    mark(directory / "in", IMMUTABLE)
    mark(directory, APPEND)


def mark(path: Path, flag: int) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    flags = array.array("l", [0])
    try:
        fcntl.ioctl(descriptor, GET_FLAGS, flags)
        flags[0] |= flag
        fcntl.ioctl(descriptor, SET_FLAGS, flags)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@pytest.mark.parametrize("make", [deep, long_names, odd_kinds])
def test_whatever_a_sandbox_made_goes(sandboxes: Path, make: Callable[[Path], None]) -> None:
    make(sandboxes / "one")
    with opened(sandboxes) as trash:
        trash.put(sandboxes / "one")
        trash.put(sandboxes / "one")
        assert list(sandboxes.iterdir()) == []
        wait_for_empty_trash(sandboxes.parent)
    assert Path("/etc/passwd").exists()


def test_what_chattr_keeps_from_change_goes_too(tmp_path: Path) -> None:
    (tmp_path / "sandboxes").mkdir()
    unchangeable(tmp_path / "sandboxes" / "one")
    with opened(tmp_path / "sandboxes") as trash:
        trash.put(tmp_path / "sandboxes" / "one")
        wait_for_empty_trash(tmp_path)


def test_what_cannot_go_keeps_nothing_else(sandboxes: Path) -> None:
    stuck = sandboxes.parent / "trash" / "stuck" / "mounted"
    stuck.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "busy", str(stuck)], check=True)
    try:
        (sandboxes / "one").mkdir()
        with opened(sandboxes) as trash:
            trash.put(sandboxes / "one")
            eventually(lambda: names(sandboxes.parent / "trash") == ["stuck"])
    finally:
        subprocess.run(["umount", str(stuck)], check=True)
    with opened(sandboxes):
        wait_for_empty_trash(sandboxes.parent)


def test_a_worker_gives_way_and_another_goes_on_when_it_is_killed(sandboxes: Path) -> None:
    much = sandboxes / "much"
    for number in range(200):
        (much / str(number)).mkdir(parents=True)
        for file in range(100):
            (much / str(number) / str(file)).touch()
    trash = Trash(sandboxes)
    trash.put(much)
    trash.open()
    worker = eventually(lambda: trash._worker)[0]
    os.kill(worker, signal.SIGSTOP)
    assert os.sched_getscheduler(worker) == os.SCHED_IDLE
    assert names(sandboxes.parent / "trash")
    os.kill(worker, signal.SIGKILL)
    trash.close()
    with opened(sandboxes):
        wait_for_empty_trash(sandboxes.parent)


def test_sandboxes_on_a_disk_of_their_own_have_their_trash_there(sandboxes: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "other", str(sandboxes)], check=True)
    try:
        (sandboxes / "one" / "upper").mkdir(parents=True)
        with opened(sandboxes) as trash:
            trash.put(sandboxes / "one")
            assert names(sandboxes) == [".trash"]
            eventually(lambda: not names(sandboxes / ".trash"))
    finally:
        subprocess.run(["umount", str(sandboxes)], check=True)


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())
