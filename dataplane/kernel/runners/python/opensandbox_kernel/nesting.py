# SPDX-License-Identifier: Apache-2.0
"""What it takes to run cells inside of an event loop.

A cell is itself part of a running loop, so that ``await`` and ``create_task`` work in it. Programs
that call ``asyncio.run`` work too: the outer loop stands aside until it returns.
"""

from __future__ import annotations

import asyncio
from types import CodeType, FrameType
from typing import Any

_ONE_CALLBACK: CodeType = asyncio.Handle._run.__code__
_OF_THE_LOOP = asyncio.__file__.removesuffix("__init__.py")
_plain_run = asyncio.run


def allow() -> None:
    """Let code in a running loop call asyncio.run."""
    asyncio.run = _run


def _run(main: Any, **options: Any) -> Any:
    __tracebackhide__ = True
    loop = asyncio._get_running_loop()
    if loop is None:
        return _plain_run(main, **options)
    task = asyncio.current_task()
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        return _plain_run(main, **options)
    finally:
        asyncio.set_event_loop(loop)
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)


def is_in_callback(frame: FrameType | None) -> bool:
    """Say whether a loop is in the middle of somebody's code, or waits for something to do.

    What the loop does itself, to call a callback or to note the next step of a task, is not that:
    what is raised there loses the callback or the step.
    """
    is_somebodys = False
    while frame is not None:
        if frame.f_code is _ONE_CALLBACK and is_somebodys:
            return True
        is_somebodys = is_somebodys or not frame.f_code.co_filename.startswith(_OF_THE_LOOP)
        frame = frame.f_back
    return False
