# SPDX-License-Identifier: Apache-2.0
"""Where the Go programs are."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

BIN_VARIABLE = "OPENSANDBOX_BIN_DIR"
_PACKAGE = Path(__file__).parent.parent


def find_program(name: str, bin_dir: Path | None = None) -> Path | None:
    """Find execd or ingress: where told, in the wheel, in the source tree's build/, on PATH."""
    told = bin_dir or (Path(os.environ[BIN_VARIABLE]) if os.environ.get(BIN_VARIABLE) else None)
    places = [told] if told else [_PACKAGE / "bin", _PACKAGE.parent.parent / "build"]
    for place in places:
        for program in (place / f"{name}-linux-{own_architecture()}", place / name):
            if program.is_file() and os.access(program, os.X_OK):
                return program.resolve()
    return None if told else find_tool(f"opensandbox-{name}")


def find_tool(name: str) -> Path | None:
    """Find a program of somebody else on PATH, and never in the directory we happen to be in."""
    found = shutil.which(name, path=whole_paths(os.environ.get("PATH", os.defpath)))
    return Path(found) if found else None


def tool_environment() -> dict[str, str]:
    """Return our environment for such a program: what it starts is found by the same rule."""
    return {**os.environ, "PATH": whole_paths(os.environ.get("PATH", os.defpath))}


def whole_paths(path: str) -> str:
    """Return a PATH without what depends on the current directory: a stranger may fill that."""
    return os.pathsep.join(place for place in path.split(os.pathsep) if place.startswith("/"))


def own_architecture() -> str:
    """Return what Go and images call the processor of this machine."""
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
