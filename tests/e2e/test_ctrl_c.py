# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while a program is still being imported: it ends with 130 and without a word.

Python tells each import on standard error when it is asked to. A pipe that holds little and is read
slowly keeps the program in the middle of its imports until the signal is there.
"""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WAIT_SECONDS = 60.0
PIPE_BYTES = 4096

PROGRAMS = {
    "osb": ["--domain", "127.0.0.1:9", "run", "-i", "host", "--", "true"],
    "opensandbox-server": ["--runtime", "fake", "--port", "0"],
    "opensandbox-mcp": [],
}


@pytest.mark.parametrize("module", ["asyncio.events", "pydantic.version"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_ctrl_c_during_imports_is_quiet(program: str, module: str, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name(program)), *PROGRAMS[program]]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPROFILEIMPORTTIME": "1"},
        preexec_fn=_heed_ctrl_c,
    )
    try:
        assert process.stderr is not None
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        _read_until(process.stderr.fileno(), module)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=WAIT_SECONDS)
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)
    said = [line for line in stderr.splitlines() if b"import time:" not in line]
    assert (process.returncode, stdout, said) == (130, b"", [])


def _heed_ctrl_c() -> None:
    """Undo what a shell does to what it starts in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _read_until(descriptor: int, module: str) -> None:
    """Read what is told about imports, not further than the module."""
    told = b""
    while not told.endswith(f"{module}\n".encode()):
        byte = os.read(descriptor, 1)
        assert byte, told
        told += byte
