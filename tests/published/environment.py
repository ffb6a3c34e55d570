# SPDX-License-Identifier: Apache-2.0
"""The published client's own virtual environment."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

_REQUIREMENTS = Path(__file__).resolve().parent / "requirements.txt"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox"


def published_python() -> Path:
    """Make the environment once for each list of versions, and return its Python."""
    key = hashlib.sha256(_REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    home = _CACHE / "clients" / key
    python = home / "bin" / "python"
    if not (home / ".complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        uv = str(_CACHE / "tools" / "bin" / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(home)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        subprocess.run([*install, "--requirement", str(_REQUIREMENTS)], check=True)
        (home / ".complete").touch()
    return python
