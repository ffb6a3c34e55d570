# SPDX-License-Identifier: Apache-2.0
"""The Python that runs this server: whether sandboxes see it, and a copy of it when they do not."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opensandbox_server.runtimes.oci.images.elf import read_runpath, replace_runpath
from opensandbox_server.runtimes.oci.images.host import PROGRAM_PATHS

PROBE_SECONDS = 60.0
"""How long an interpreter may take to load its own modules."""
_NOT_COPIED = {"__pycache__", "dist-packages", "idlelib", "site-packages", "test", "tests"}
_NOT_COPIED |= {"sitecustomize.py", "turtledemo", "usercustomize.py"}
_NOT_COPIED_MODULES = ("_ctypes_test", "_test", "_tkinter", "_xx", "xx")
# Loads every extension module and tells which files that took, and where it looks for modules.
_PROBE = """
import importlib, json, pathlib, sys, sysconfig
for file in pathlib.Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so"):
    name = file.name.split(".")[0]
    if not name.startswith(SKIPPED):
        try:
            importlib.import_module(name)
        except ImportError:
            pass
for name in sys.argv[1:]:
    importlib.import_module(name)
lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
mapped = {line.split(None, 5)[5] for line in lines if "/" in line and ".so" in line}
print(json.dumps({"mapped": sorted(mapped), "path": sys.path}))
""".replace("SKIPPED", repr(_NOT_COPIED_MODULES))


class CannotMove(Exception):
    """The interpreter does not work away from where it is installed."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An installed Python, without any virtual environment around it."""

    prefix: Path
    stdlib: Path
    version: str

    @property
    def name(self) -> str:
        """Its name with the version, as `python3.12`."""
        return self.stdlib.name

    @property
    def program(self) -> Path:
        """The program itself."""
        return self.prefix / "bin" / self.name

    @property
    def is_visible(self) -> bool:
        """True when a sandbox of the image host has it anyway."""
        return all(is_shown(part.resolve()) for part in (self.program, self.stdlib))

    def fingerprint(self) -> list[str]:
        """Return what changes when it is replaced by another."""
        seen = self.program.stat()
        return [str(self.program), self.version, str(seen.st_size), str(seen.st_mtime_ns)]


def own_interpreter() -> Interpreter:
    """Return the one that runs this."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    return Interpreter(Path(sys.base_prefix), stdlib, platform.python_version())


def is_shown(path: Path) -> bool:
    """Say whether a path of the host is in sandboxes of the image host."""
    return str(path).startswith(tuple(f"{shown}/" for shown in PROGRAM_PATHS))


def copy_interpreter(source: Interpreter, target: Path) -> None:
    """Copy program, modules and own libraries to target. Raises CannotMove."""
    (target / "bin").mkdir(parents=True)
    shutil.copyfile(source.program, target / "bin" / source.name)
    (target / "bin" / source.name).chmod(0o755)
    for file in _modules(source.stdlib):
        _copy(file, target / "lib" / source.name / file.relative_to(source.stdlib))
    for library in _own_libraries(source):
        _copy(library, target / library.relative_to(source.prefix.resolve()))
    for directory, _, names in os.walk(target):
        for name in names:
            _point_to_copies(Path(directory, name), source, target)


def probe(program: Path, *modules: str) -> dict[str, list[str]]:
    """Load its extension modules and the named ones; tell what that took. Raises CannotMove."""
    try:
        done = subprocess.run(
            [program, "-I", "-B", "-c", _PROBE, *modules],
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise CannotMove(f"{program} does not run: {fault}") from fault
    if done.returncode:
        raise CannotMove(f"{program} does not run: {done.stderr.strip()[-500:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def check_moved(target: Path, *modules: str) -> None:
    """See that the copy needs nothing that sandboxes do not have. Raises CannotMove."""
    told = probe(target / "bin" / "python3", *modules)
    whole = target.resolve()
    for used in (*told["mapped"], *told["path"]):
        if not Path(used).is_relative_to(whole) and not is_shown(Path(used)):
            raise CannotMove(f"it needs {used}, which sandboxes do not see")


def _modules(stdlib: Path) -> Iterator[Path]:
    for directory, inner, names in os.walk(stdlib):
        inner[:] = [name for name in inner if name not in _NOT_COPIED and name[:7] != "config-"]
        is_native = Path(directory).name == "lib-dynload"
        for name in names:
            if name in _NOT_COPIED or (is_native and name.startswith(_NOT_COPIED_MODULES)):
                continue
            file = Path(directory, name)
            # A link could lead to anything; those of an interpreter lead to its own files.
            if file.resolve().is_relative_to(stdlib.resolve()):
                yield file


def _own_libraries(source: Interpreter) -> list[Path]:
    """Return the libraries it loads that neither are modules nor belong to the system."""
    prefix, stdlib = source.prefix.resolve(), source.stdlib.resolve()
    used = [Path(name) for name in probe(source.program)["mapped"] if not is_shown(Path(name))]
    return [one for one in used if one.is_relative_to(prefix) and not one.is_relative_to(stdlib)]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _point_to_copies(file: Path, source: Interpreter, target: Path) -> None:
    """Let a program that names its libraries' directory by its whole path find the copies."""
    if file.suffix in (".py", ".pyc"):
        return
    found = read_runpath(file.read_bytes())
    if found is None:
        return
    near = ":".join(_nearby(part, file, source, target) for part in found.text.split(":"))
    if near != found.text and not replace_runpath(file, near):
        raise CannotMove(f"{file.name} looks for libraries in {found.text}")


def _nearby(directory: str, file: Path, source: Interpreter, target: Path) -> str:
    if not Path(directory).is_relative_to(source.prefix):
        return directory
    copied = target / Path(directory).relative_to(source.prefix)
    return f"$ORIGIN/{os.path.relpath(copied, file.parent)}"
