# SPDX-License-Identifier: Apache-2.0
"""One thread reads the output of all sandboxes: a flood waits, and nobody else does."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.launcher import logs
from tests.harness.wait import eventually

FLOODS = 4


@pytest.fixture
def reader() -> Iterator[logs.Logs]:
    """The thread that reads."""
    opened = logs.Logs()
    yield opened
    opened.close()


@contextlib.contextmanager
def pipe_of(reader: logs.Logs, directory: Path) -> Iterator[int]:
    """Make the pipe of a sandbox and let it be read; yields the end that the sandbox has."""
    directory.mkdir()
    logs.make_pipe(directory, os.getuid())
    written = logs.open_pipe(directory)
    reader.follow(directory.name, directory)
    try:
        yield written
    finally:
        reader.forget(directory.name)
        os.close(written)


def until_logged(directory: Path, text: bytes) -> None:
    eventually(lambda: text in logs.read_log(directory, 1000), repr(text))


def written_by(pid: int) -> int:
    """Return how many bytes a process has written."""
    counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(counts["wchar"])


def test_floods_are_read_at_a_bounded_rate_and_a_quiet_one_is_still_heard(
    reader: logs.Logs, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as around:
        quiet = around.enter_context(pipe_of(reader, tmp_path / "quiet"))
        began, floods = time.monotonic(), []
        for number in range(FLOODS):
            flood = around.enter_context(pipe_of(reader, tmp_path / f"flood-{number}"))
            yes = subprocess.Popen(["yes"], stdout=flood)
            around.callback(yes.wait)
            around.callback(yes.kill)
            floods.append(yes.pid)
        for number in range(20):
            os.write(quiet, b"line %d\n" % number)
            until_logged(tmp_path / "quiet", b"line %d\n" % number)
            time.sleep(0.1)
        written = sum(written_by(pid) for pid in floods)
        seconds = int(time.monotonic() - began) + 2
    most = logs.READ.all + (FLOODS + 1) * (logs.READ.least + logs.READ_BYTES)
    assert 0 < written <= most * seconds + FLOODS * logs.PIPE_BYTES
    for number in range(FLOODS):
        kept = sum(file.stat().st_size for file in (tmp_path / f"flood-{number}").glob("log*"))
        assert 0 < kept <= 3 * logs.KEPT_BYTES


def test_the_last_words_are_kept_also_of_a_flood(reader: logs.Logs, tmp_path: Path) -> None:
    with pipe_of(reader, tmp_path / "flood") as written:
        for _ in range(3 * logs.READ.own // 65536):
            os.write(written, b"x" * 65536)
        os.write(written, b"the last words\n")
        until_logged(tmp_path / "flood", b"the last words\n")


LINE = b"%07d\n"


def write_lines(written: int, first: int, count: int) -> None:
    for number in range(first, first + count):
        os.write(written, LINE % number)


def read_all(reader: logs.Logs, directory: Path, since: int = 0) -> tuple[int, bytes]:
    """Read everything from a position on; return where it began."""
    begin, read = None, b""
    while True:
        position, data, _ = reader.read(directory.name, directory, since, 4096, is_followed=False)
        if not data:
            return since if begin is None else begin, read
        begin = position if begin is None else begin
        read, since = read + data, position + len(data)


def position_of(number: int) -> int:
    return number * len(LINE % 0)


def test_positions_count_what_is_kept_no_longer(reader: logs.Logs, tmp_path: Path) -> None:
    with pipe_of(reader, tmp_path / "box") as written:
        last = 3 * logs.KEPT_BYTES // 8
        for first in range(0, last, 1000):
            write_lines(written, first, min(1000, last - first))
            until_logged(tmp_path / "box", LINE % (min(first + 1000, last) - 1))
        begin, read = read_all(reader, tmp_path / "box")
        assert begin > 0
        assert read == b"".join(LINE % number for number in range(begin // 8, last))
        assert len(read) >= logs.KEPT_BYTES
        near = position_of(last - 2)
        assert read_all(reader, tmp_path / "box", near) == (
            near,
            LINE % (last - 2) + LINE % (last - 1),
        )
    assert read_all(reader, tmp_path / "box") == (begin, read)  # also when it has ended


@pytest.mark.parametrize("cut", ["before both renames", "between them", "after both"])
def test_positions_outlive_a_launcher_that_ended_in_a_rotation(
    reader: logs.Logs, tmp_path: Path, cut: str
) -> None:
    box, kept = tmp_path / "box", b"".join(LINE % number for number in range(100))
    box.mkdir()
    logs.make_pipe(box, os.getuid())
    (box / "log").write_bytes(kept)
    (box / "log.new").touch()
    (box / logs.POSITION).write_text(f"{len(kept)} {(box / 'log.new').stat().st_ino}")
    if cut != "before both renames":
        (box / "log").replace(box / "log.1")
    if cut == "after both":
        (box / "log.new").replace(box / "log")
    written = logs.open_pipe(box)
    reader.follow("box", box)
    os.write(written, b"more\n")
    until_logged(box, b"more\n")
    assert read_all(reader, box) == (0, kept + b"more\n")
    assert read_all(reader, box, len(kept)) == (len(kept), b"more\n")
    reader.forget("box")
    os.close(written)
    assert read_all(reader, box) == (0, kept + b"more\n")


def test_what_the_first_release_kept_is_all_there_was(reader: logs.Logs, tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(b"former")
    (tmp_path / "log").write_bytes(b"latter")
    assert read_all(reader, tmp_path) == (0, b"formerlatter")
    assert read_all(reader, tmp_path, 8) == (8, b"tter")


def test_who_waits_for_more_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    reader = logs.Logs(told.append)
    try:
        with pipe_of(reader, tmp_path / "box") as written:
            box = tmp_path / "box"
            os.write(written, b"one\n")
            until_logged(box, b"one\n")
            assert told == []
            assert reader.read("box", box, 4, 100, is_followed=True) == (4, b"", False)
            os.write(written, b"two\n")
            until_logged(box, b"two\n")
            os.write(written, b"three\n")
            until_logged(box, b"three\n")
            reader.read("box", box, 14, 100, is_followed=False)
            assert told == ["box"]
            reader.read("box", box, 14, 100, is_followed=True)
        assert told == ["box", "box"]  # nothing more will come
        assert reader.read("box", tmp_path / "box", 14, 100, is_followed=True) == (14, b"", True)
    finally:
        reader.close()
