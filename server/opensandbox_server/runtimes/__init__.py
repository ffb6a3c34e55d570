# SPDX-License-Identifier: Apache-2.0
"""Runtimes, found by entry points, so that others can bring one from outside this repository."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import entry_points

from opensandbox_server.errors import StartupError
from opensandbox_server.runtimes.base import Runtime, RuntimeHome

GROUP = "opensandbox.runtimes"


@contextlib.asynccontextmanager
async def open_runtime(runtime: Runtime) -> AsyncIterator[None]:
    """Make the runtime ready, and release it at the end. Raises RuntimeUnavailable."""
    await runtime.prepare()
    try:
        yield
    finally:
        await runtime.close()


def make_runtime(name: str, home: RuntimeHome) -> Runtime:
    """Make the runtime of that name; nothing is opened yet. Raises StartupError."""
    found = entry_points(group=GROUP, name=name)
    if not found:
        installed = ", ".join(sorted({point.name for point in entry_points(group=GROUP)})) or "none"
        raise StartupError(f"runtime.type: there is no {name} runtime here; installed: {installed}")
    try:
        runtime = next(iter(found)).load()(home)
    except (ImportError, ValueError) as fault:
        raise StartupError(f"the {name} runtime cannot be used: {fault}") from fault
    if not isinstance(runtime, Runtime):
        raise StartupError(f"the {name} runtime is not a Runtime")
    return runtime
