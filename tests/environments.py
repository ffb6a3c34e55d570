# SPDX-License-Identifier: Apache-2.0
"""Virtual environments that tests need beside their own, made once and kept in the cache."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox"


def python_with(requirements: Path) -> Path:
    """Make the environment once for each list of versions, and return its Python."""
    key = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:16]
    home = CACHE / "clients" / key
    python = home / "bin" / "python"
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run of the tests may be making it
        if (home / ".complete").exists():
            return python
        shutil.rmtree(home, ignore_errors=True)
        uv = str(CACHE / "tools" / "bin" / "uv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(home)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        subprocess.run([*install, "--requirement", str(requirements)], check=True)
        (home / ".complete").touch()
    return python
