# SPDX-License-Identifier: Apache-2.0
"""Programs that the server starts: their status, their descriptors, their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from opensandbox_server.host.spawn import adopt, spawn

pytestmark = pytest.mark.anyio

ENV = {"PATH": os.defpath}


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
async def test_the_status_tells_how_it_ended(script: str, status: int) -> None:
    child = spawn(["/bin/sh", "-c", script], ENV)
    assert await child.wait() == status
    assert child.has_ended


async def test_it_gets_the_descriptors_it_was_given_and_no_others(tmp_path: Path) -> None:
    out = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    kept = os.open(tmp_path, os.O_RDONLY)  # not for the child
    try:
        # Each is given under the number of the other: neither may overwrite the other on the way.
        child = spawn(["/bin/sh", "-c", "ls -l /proc/self/fd >&5"], ENV, fds={5: out, out: out})
        await child.wait()
    finally:
        os.close(out)
        os.close(kept)
    listing = (tmp_path / "out").read_text()
    assert " 5 ->" in listing
    assert f" {kept} -> {tmp_path}\n" not in listing


async def test_descriptors_may_trade_places(tmp_path: Path) -> None:
    first = os.open(tmp_path / "first", os.O_WRONLY | os.O_CREAT)
    second = os.open(tmp_path / "second", os.O_WRONLY | os.O_CREAT)
    # A shell redirects to descriptors of one digit only, hence by path.
    script = f"echo first >/proc/self/fd/{second}; echo second >/proc/self/fd/{first}"
    child = spawn(["/bin/sh", "-c", script], ENV, fds={first: second, second: first})
    assert await child.wait() == 0
    os.close(first)
    os.close(second)
    assert (tmp_path / "first").read_text() == "first\n"
    assert (tmp_path / "second").read_text() == "second\n"


TRY_NUMBERS = """
import asyncio, fcntl, itertools, os, tempfile
from pathlib import Path
from opensandbox_server.host.spawn import spawn

async def main():
    os.chdir(tempfile.mkdtemp(dir="."))
    opened = [os.open(name, os.O_WRONLY | os.O_CREAT) for name in "abc"]
    for low, order in itertools.product(range(24), itertools.permutations(opened)):
        sources = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, low) for fd in order]
        fds = dict(zip((3, 4, 5), sources))
        script = "readlink /proc/$$/fd/3 /proc/$$/fd/4 /proc/$$/fd/5 >said"
        assert await spawn(["/bin/sh", "-c", script], os.environ, fds=fds).wait() == 0
        said = [Path(line).name for line in Path("said").read_text().split()]
        assert said == ["abc"[opened.index(fd)] for fd in order], (sources, said)
        for fd in sources:
            os.close(fd)

asyncio.run(main())
"""


def test_it_gets_them_whatever_their_numbers_are_here(tmp_path: Path) -> None:
    # In a process of its own: which numbers are free in this one nobody knows.
    words = [sys.executable, "-c", TRY_NUMBERS]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=60)


async def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        spawn(["/nonexistent"], ENV)


async def test_it_ends_by_asking_and_else_by_force() -> None:
    polite = spawn(["/bin/sleep", "1000"], ENV)
    assert await polite.end(grace=10) == -signal.SIGTERM
    readable, writable = os.pipe()
    deaf = spawn(
        ["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"],
        ENV,
        fds={1: writable},
    )
    os.close(writable)
    assert os.read(readable, 10) == b"deaf\n"
    os.close(readable)
    assert await deaf.end(grace=0.01) == -signal.SIGKILL


async def test_signals_to_what_is_gone_do_nothing() -> None:
    child = spawn(["/bin/true"], ENV)
    await child.wait()
    child.send(signal.SIGKILL)


async def test_who_runs_already_can_be_adopted() -> None:
    child = spawn(["/bin/sleep", "1000"], ENV)
    same = adopt(child.pid)
    ended: list[int | None] = []
    same.when_ended(ended.append)
    child.send(signal.SIGKILL)
    await same.wait()
    assert len(ended) == 1
    await child.wait()
