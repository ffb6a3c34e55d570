# SPDX-License-Identifier: Apache-2.0
"""Which part of the server may know which other, and which words are not used for things."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repository.test_sources import ROOT, sources

PACKAGE = "opensandbox_server"
SERVER = ROOT / "server" / PACKAGE
ROOMS = {
    "host": {"errors"},
    "settings": {"errors"},
    "telemetry": {"_version", "errors", "host", "settings"},
    "runtimes": {"errors", "host"},
    "store": {"errors", "host", "settings", "runtimes.base"},
    "ingress": {"errors", "host", "settings", "store.stored"},
    "sandboxes": {
        *("errors", "host", "settings", "telemetry", "store", "ingress.routes"),
        *("runtimes.base", "runtimes.quantities"),
    },
    "api": {
        *("_version", "errors", "host", "settings", "telemetry", "store.stored"),
        *("ingress.endpoints", "sandboxes"),
    },
    "commands": {
        *("errors", "host", "settings", "store", "ingress", "runtimes", "serve"),
    },
}
"""A room may import itself and these; a runtime is known by its name only where one is chosen."""
LAUNCHER = {
    *("host.full_disk", "runtimes.base", "runtimes.execd_token"),
    *("runtimes.oci.bounds", "runtimes.oci.image", "runtimes.oci.protocol", "runtimes.oci.network"),
}
"""What the launcher may import besides itself: it is root, and forks."""
TOO_MUCH_FOR_THE_LAUNCHER = {"pydantic", "fastapi", "starlette", "uvicorn", "httpx"}
PURE = (
    *("ingress/endpoints.py", "runtimes/quantities.py", "runtimes/oci/launcher/bundle.py"),
    *("runtimes/oci/network/rules.py", "sandboxes/admission.py", "sandboxes/diagnostics.py"),
    *("sandboxes/metadata.py", "sandboxes/reconcile.py", "sandboxes/states.py", "api/views.py"),
)
"""These decide and translate; whoever calls them does the rest."""
DOING = {"asyncio", "os", "shutil", "socket", "sqlite3", "subprocess", "threading", "time"}
REPLACED_WORDS = (
    *("Mourn", "Nest", "Turnstile", "DoorPlan", "DoorClosed", "Patience", "Errands", "Happening"),
    *("wish", "wishes", "furnish", "_furnish", "inhabit", "_inhabit", "Newcomers", "fate"),
    *("teller", "Helper", "HelperGone", "anew"),
)
"""One word for one thing, an ordinary one: what each of these was called meant something else."""


def modules() -> Iterator[tuple[str, Path]]:
    """Give every module of the server, with its name below the package."""
    for path in sorted(SERVER.rglob("*.py")):
        parts = path.relative_to(SERVER).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


def imported(path: Path) -> set[str]:
    """Return the modules a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module == PACKAGE or node.module.startswith(f"{PACKAGE}."):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def own(path: Path) -> set[str]:
    """Return what of the server a file imports: modules, and names in them."""
    prefix = f"{PACKAGE}."
    return {name.removeprefix(prefix) for name in imported(path) if name.startswith(prefix)}


def is_below(name: str, places: set[str]) -> bool:
    """Say whether a module is one of the places, in one of them, or a package around one."""
    return any(f"{name}.".startswith(f"{place}.") for place in places) or any(
        place.startswith(f"{name}.") for place in places
    )


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_it_may_know(room: str) -> None:
    allowed = {room, *ROOMS[room]}
    wrong = {
        f"{name} imports {each}"
        for name, path in modules()
        if name.split(".")[0] == room
        for each in own(path)
        if not is_below(each, allowed)
    }
    assert wrong == set()


def test_every_room_has_its_rule() -> None:
    rooms = {path.parent.name for path in SERVER.glob("*/__init__.py")}
    assert rooms == set(ROOMS)


def test_the_launcher_imports_only_what_it_needs() -> None:
    inside = {"runtimes.oci.launcher", *LAUNCHER}
    wrong = {
        f"{name} imports {each}"
        for name, path in modules()
        if name.startswith("runtimes.oci.launcher")
        for each in own(path)
        if not is_below(each, inside)
    }
    assert wrong == set()


def test_the_process_of_the_launcher_loads_nothing_heavy() -> None:
    code = f"import sys, {PACKAGE}.runtimes.oci.launcher.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & TOO_MUCH_FOR_THE_LAUNCHER == set()


@pytest.mark.parametrize("module", PURE)
def test_what_only_decides_does_nothing(module: str) -> None:
    assert imported(SERVER / module) & DOING == set()


def test_things_have_their_ordinary_names() -> None:
    pattern = re.compile(rf"\b({'|'.join(REPLACED_WORDS)})\b")
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sources()
        if path.suffix in {".py", ".go"} and path != Path(__file__).resolve()
        for match in pattern.finditer(path.read_text())
        if match[0] != "Helper" or path.suffix == ".py"  # t.Helper() is Go's own
    }
    assert found == set()
