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
