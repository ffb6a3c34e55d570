# SPDX-License-Identifier: Apache-2.0
"""What works on this host, what is missing, and the exact command that fixes it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from opensandbox_server.errors import StartupError
from opensandbox_server.host.data_dir import who_else_may_enter
from opensandbox_server.host.programs import find_program
from opensandbox_server.ingress.user import chosen_identity
from opensandbox_server.runtimes import make_runtime
from opensandbox_server.runtimes.base import Finding
from opensandbox_server.serve import runtime_home
from opensandbox_server.settings.settings import Settings


async def examine(settings: Settings) -> Sequence[Finding]:
    """Look at everything the server needs, and at what its runtime needs. Changes nothing."""
    own = [_program("ingress", settings), _program("execd", settings), _data_dir(settings)]
    return [*own, *await _runtime(settings)]


def report(findings: Sequence[Finding]) -> str:
    """Write one finding a line, and below those that are not well how to fix them."""
    lines = []
    for finding in findings:
        state = "missing" if not finding.is_ok else "warning" if finding.fix else "ok     "
        lines.append(f"{state}  {finding.name}: {finding.message}")
        if finding.fix:
            lines.append(f"         fix: {finding.fix}")
    return "\n".join(lines) + "\n"


def _program(name: str, settings: Settings) -> Finding:
    found = find_program(name, settings.server.bin_dir)
    return Finding(
        name, found is not None, str(found or "not found"), "" if found else "make build"
    )


def _data_dir(settings: Settings) -> Finding:
    place = settings.data_dir
    while not place.exists():
        place = place.parent
    if place == settings.data_dir and (problem := who_else_may_enter(place)):
        return Finding("data directory", False, f"{place}: {problem[0]}", problem[1])
    message = f"{settings.data_dir} can be written, by nobody else"
    if os.access(place, os.W_OK):
        return Finding("data directory", True, message)
    return Finding(
        "data directory", False, f"{place} cannot be written", "choose another server.data_dir"
    )


async def _runtime(settings: Settings) -> Sequence[Finding]:
    name = settings.runtime.type
    try:
        chosen = chosen_identity(settings)
        home = runtime_home(settings, chosen.gid if chosen else None)
        return await make_runtime(name, home).doctor()
    except StartupError as fault:
        return [Finding(f"{name} runtime", False, str(fault))]
