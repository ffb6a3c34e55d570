# SPDX-License-Identifier: Apache-2.0
"""`opensandbox-server leftovers …`: what no server understands is listed, adopted or dropped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

from opensandbox_server.errors import StartupError
from opensandbox_server.host.data_dir import DataDir, open_data_dir
from opensandbox_server.runtimes import make_runtime
from opensandbox_server.runtimes.base import Runtime, SandboxSpec
from opensandbox_server.runtimes.oci.launcher.records import NotUnderstood, Record
from opensandbox_server.runtimes.oci.leftovers import CannotAdopt, Remains
from opensandbox_server.runtimes.oci.options import read_options
from opensandbox_server.serve import runtime_home
from opensandbox_server.settings.settings import Settings
from opensandbox_server.store import open_store, read_rows
from opensandbox_server.store import stored as stored_form
from opensandbox_server.store.store import Store
from opensandbox_server.store.stored import StoredSandbox


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that the server leaves as it is."""

    name: str
    why: str
    found: Record | NotUnderstood | None
    """What is on the disk; None when only the store has something."""
    row: StoredSandbox | stored_form.NotUnderstood | None


def list_(settings: Settings) -> str:
    """Show them, one a line."""
    found = leftovers(settings)
    if not found:
        return "nothing is left over\n"
    lines = [f"{'NAME':<40} {'RUNS':<5} WHY"]
    for each in found:
        lines.append(
            f"{ascii(each.name)[1:-1]:<40} {'yes' if _runs(settings, each) else 'no':<5} {each.why}"
        )
    return "\n".join(lines) + "\n"


def drop(settings: Settings, names: Sequence[str]) -> str:
    """End and remove them, with what the store has of them."""
    with _alone(settings) as known:
        for name in _chosen(known, names):
            if known[name].found is not None and (remains := _remains(settings)):
                remains.drop(name, ends=_runs(settings, known[name]))
            asyncio.run(_forget(settings, name))
    return "".join(f"dropped {name}\n" for name in _chosen(known, names))


def adopt(settings: Settings, names: Sequence[str]) -> str:
    """Make them sandboxes again, as far as can be; the next server goes on with them."""
    with _alone(settings) as known:
        for name in _chosen(known, names):
            _adopt(settings, known[name])
    return "".join(f"adopted {name}\n" for name in _chosen(known, names))


def leftovers(settings: Settings) -> Sequence[Leftover]:
    """Look for everything that the next server would leave as it is."""
    rows = read_rows(settings, _runtime(settings))
    unreadable = {
        name: row for name, row in rows.items() if isinstance(row, stored_form.NotUnderstood)
    }
    found: dict[str, Leftover] = {}
    for name, seen in remains.all() if (remains := _remains(settings)) else ():
        row = rows.get(name)
        if isinstance(seen, NotUnderstood):
            found[name] = Leftover(name, str(seen), seen, row)
        elif name not in rows:
            found[name] = Leftover(name, "the store does not know it", seen, None)
        elif name in unreadable:
            found[name] = Leftover(name, str(unreadable.pop(name)), seen, row)
    for name, row in unreadable.items():
        found.setdefault(name, Leftover(name, str(row), None, row))
    return [found[name] for name in sorted(found)]


def _runs(settings: Settings, leftover: Leftover) -> bool:
    found, remains = leftover.found, _remains(settings)
    if found is None or (isinstance(found, NotUnderstood) and not found.is_sandbox):
        return False
    return remains is not None and remains.runs(leftover.name)


def _adopt(settings: Settings, leftover: Leftover) -> None:
    name, remains = leftover.name, _remains(settings)
    row = leftover.row if isinstance(leftover.row, StoredSandbox) else None
    if leftover.found is None or remains is None:
        raise StartupError(f"{name}: {leftover.why}; only a server that can read it can adopt it")
    if isinstance(leftover.found, NotUnderstood):
        if not leftover.found.is_sandbox:
            raise StartupError(f"{name}: {leftover.why}; it is no sandbox that could be adopted")
        try:
            remains.adopt(name, row.spec.image if row else "unknown")
        except (CannotAdopt, OSError) as fault:
            raise StartupError(f"{name}: it cannot be adopted: {fault}") from fault
    if row is None:
        image = leftover.found.image if isinstance(leftover.found, Record) else "unknown"
        asyncio.run(_remember(settings, name, image))


async def _remember(settings: Settings, name: str, image: str) -> None:
    """Write a row for a sandbox: its token is lost, so it can be paused and deleted, not used."""
    spec = SandboxSpec(name, image, ("unknown",))
    stored = StoredSandbox(spec, datetime.now(UTC), has_answered=True)
    async with _open_store(settings) as store:
        await store.delete(name)
        await store.insert(stored)


async def _forget(settings: Settings, name: str) -> None:
    async with _open_store(settings) as store:
        await store.delete(name)


def _open_store(settings: Settings) -> AbstractAsyncContextManager[Store]:
    return open_store(settings, DataDir(settings.data_dir), _runtime(settings))


def _runtime(settings: Settings) -> Runtime:
    return make_runtime(settings.runtime.type, runtime_home(settings, None))


@contextlib.contextmanager
def _alone(settings: Settings) -> Iterator[Mapping[str, Leftover]]:
    """Keep servers away meanwhile. Raises StartupError when one runs; sandboxes run on."""
    with open_data_dir(settings.data_dir, None):
        yield {each.name: each for each in leftovers(settings)}


def _chosen(known: Mapping[str, Leftover], names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in known:
            raise StartupError(f"{name}: no such leftover; see: opensandbox-server leftovers list")
    return names


def _remains(settings: Settings) -> Remains | None:
    """Return the sandboxes of the embedded runtime; those of others are their own to tell."""
    if settings.runtime.type != "oci":
        return None
    options = read_options(settings.runtime_options.get("oci", {}))
    return Remains(settings.data_dir, options.subnet)
