# SPDX-License-Identifier: Apache-2.0
"""Waiting for what must become true, and not for ever.

Nothing is imported but Python's own: programs in other environments wait with this, too.
"""

import asyncio
import inspect
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

PATIENCE = float(os.environ.get("PATIENCE", "240"))
"""How many seconds anything may take on a machine with much to do; a hang, if it is longer.

A test may take a little longer, and so fails with what it waited for.
"""
_LONGEST_PAUSE = 0.1


def eventually(
    probe: Callable[[], T | None],
    otherwise: Callable[[], object] | str = "",
    *,
    seconds: float = PATIENCE,
) -> T:
    """Ask again until the answer is true, and return it.

    The failure shows the source of the probe and its last answer, and ``otherwise``.
    """
    pauses = _pauses(seconds)
    while not (answer := probe()):
        pause = next(pauses, None)
        assert pause is not None, _complaint(probe, answer, otherwise, seconds)
        time.sleep(pause)
    return answer


async def eventually_async(
    probe: Callable[[], object],
    otherwise: Callable[[], object] | str = "",
    *,
    seconds: float = PATIENCE,
) -> None:
    """Do the same where others go on meanwhile; the answer may have to be awaited."""
    pauses = _pauses(seconds)
    while not (answer := await _awaited(probe())):
        pause = next(pauses, None)
        assert pause is not None, _complaint(probe, answer, otherwise, seconds)
        await asyncio.sleep(pause)


async def _awaited(answer: object) -> object:
    return await answer if inspect.isawaitable(answer) else answer


def _pauses(seconds: float) -> Iterator[float]:
    """Give pauses that grow up to a bound, until so many seconds are over."""
    deadline = time.monotonic() + seconds
    for number in itertools.count():
        if time.monotonic() > deadline:
            return
        yield min(0.005 * 1.5 ** min(number, 20), _LONGEST_PAUSE)


def _complaint(
    probe: Callable[[], object],
    answer: object,
    otherwise: Callable[[], object] | str,
    seconds: float,
) -> str:
    told = otherwise if isinstance(otherwise, str) else otherwise()
    return f"not in {seconds:g} s: {_source(probe)}; last answer: {answer!r}\n{told}".rstrip()


def _source(probe: Callable[[], object]) -> str:
    try:
        return " ".join(inspect.getsource(probe).split())
    except (OSError, TypeError):  # it was not written in a file
        return repr(probe)
