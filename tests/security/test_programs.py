# SPDX-License-Identifier: Apache-2.0
"""The directory a server is started in may be a stranger's: nothing in it is run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opensandbox_server.host.programs import find_tool
from tests.harness.runtime import Home, opened_home

MODULES = ("selectors", "socket", "argparse", "ctypes", "pyroute2")
PROGRAMS = ("rm", "nft", "crun", "runc", "iptables", "mmdebstrap", "skopeo", "opensandbox-execd")


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Path]:
    """Be in a directory whose modules and programs say that they were run; yields where they do."""
    place, said = tmp_path / "from-an-agent", tmp_path / "said"
    place.mkdir()
    for name in MODULES:
        (place / f"{name}.py").write_text(f"open({str(said)!r}, 'a').write({name!r})\n")
    for name in PROGRAMS:
        (place / name).write_text(f"#!/bin/sh\necho {name} >> {said}\n")
        (place / name).chmod(0o755)
    with contextlib.chdir(place):
        yield said


@pytest.fixture
def careless_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a PATH that begins with the current directory, said in both ways there are."""
    monkeypatch.setenv("PATH", f":.:{os.environ['PATH']}")


def test_a_stranger_s_module_is_run_where_nothing_is_done_about_it(trap: Path) -> None:
    subprocess.run([sys.executable, "-m", "timeit", "-n1", "import selectors"], check=False)
    assert trap.read_text() == "selectors"


@pytest.mark.usefixtures("network", "careless_path")
def test_the_launcher_runs_nothing_of_the_current_directory(trap: Path, tmp_path: Path) -> None:
    with opened_home(tmp_path / "home") as home:
        box = home.start()
        assert box.sh("echo alive").output == "alive"
        box.stop()
    assert not trap.exists()
    assert not _sandboxes(home)


def test_the_launcher_is_not_in_the_directory_of_the_operator(home: Home) -> None:
    assert Path(f"/proc/{home.launcher}/cwd").readlink() == Path("/")


def test_the_server_imports_nothing_from_the_current_directory(trap: Path) -> None:
    words = [sys.executable, "-m", "opensandbox_server", "--help"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    assert not trap.exists()


@pytest.mark.usefixtures("trap", "careless_path")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_never_found_in_the_current_directory(name: str) -> None:
    found = find_tool(name)
    assert found is None or found.is_absolute()


def _sandboxes(home: Home) -> list[str]:
    return [entry.name for entry in (home.data_dir / "sandboxes").iterdir()]
