# SPDX-License-Identifier: Apache-2.0
"""A task that must live comes back, whatever ended it, and is known to be down meanwhile."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os

import pytest

from opensandbox_server.errors import StoreFault
from opensandbox_server.host.supervision import LONGEST_PAUSE_SECONDS, Supervised, growing_pauses

pytestmark = pytest.mark.anyio

FAULTS = [
    StoreFault("The store cannot be used: database is locked."),
    OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    KeyError("an id"),
    ExceptionGroup("two", [KeyError("a"), OSError("b")]),
    None,
]


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
async def test_what_fails_or_ends_comes_back(
    fault: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    lives = 0
    is_back = asyncio.Event()

    async def work() -> None:
        nonlocal lives
        lives += 1
        if lives > 1:
            is_back.set()
            await asyncio.Event().wait()
        if fault:
            raise fault

    task = Supervised("the task", work)
    running = asyncio.create_task(task.run())
    while not task.is_down:
        await asyncio.sleep(0)
    await is_back.wait()
    assert not task.is_down
    assert "the task" in caplog.text
    assert str(fault or "ended") in caplog.text
    running.cancel()
    assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], BaseException)
    assert lives == 2


def test_pauses_grow_up_to_a_bound() -> None:
    pauses = list(itertools.islice(growing_pauses(), 100))
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[1]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
