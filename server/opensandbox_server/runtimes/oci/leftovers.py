# SPDX-License-Identifier: Apache-2.0
"""What an operator does with what no server understands. Only while no server runs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from opensandbox_server.runtimes.oci.launcher.cgroups.cgroups import find_cgroups
from opensandbox_server.runtimes.oci.launcher.cgroups.tree import Cgroups
from opensandbox_server.runtimes.oci.launcher.records import (
    RECORD,
    VERSION,
    NotUnderstood,
    Record,
    boot_id,
    read_record,
    start_ticks,
    survey,
    write_record,
)
from opensandbox_server.runtimes.oci.launcher.trash import put_aside, trash_places
from opensandbox_server.runtimes.oci.network.network import Block
from opensandbox_server.runtimes.oci.runtime import cgroup_parent


class CannotAdopt(Exception):
    """A sandbox that cannot be made sense of; the message says why."""


class Remains:
    """The directory of all sandboxes, looked at from outside of a launcher."""

    def __init__(self, data_dir: Path, subnet: str) -> None:
        """Take the data directory and the range its addresses come from; nothing is changed."""
        self._data_dir = data_dir.resolve()
        self._sandboxes = self._data_dir / "sandboxes"
        self._subnet = IPv4Network(subnet)

    def all(self) -> Iterator[tuple[str, Record | NotUnderstood]]:
        """Return every sandbox, and everything else that is not what a cut-off start left."""
        if self._sandboxes.is_dir():
            for entry, found in survey(self._sandboxes, self.runs):
                if found is not None:
                    yield entry.name, found

    def runs(self, name: str) -> bool:
        """Say whether a sandbox has processes."""
        return bool(self._cgroups().processes(name))

    def drop(self, name: str, *, ends: bool) -> None:
        """Put its files into the trash, for the next server to empty; end first what runs there."""
        if ends:
            cgroups = self._cgroups()
            cgroups.kill(name)
            cgroups.remove(name)
            self._socket(name).unlink(missing_ok=True)
        put_aside(self._sandboxes / name, trash_places(self._sandboxes))

    def adopt(self, name: str, image: str) -> None:
        """Write a record that this version reads, from what is there. Raises CannotAdopt."""
        directory = self._sandboxes / name
        said = _said(directory)
        pid = self._first_process(name)
        guess: dict[str, Any] = {
            "id": name,
            "image": image,
            "slot": self._slot(directory),
            "socket": str(self._socket(name)),
            "runner": "",
            "created": directory.stat().st_mtime,
            "cgroup": name,
        }
        try:
            record = read_record(json.dumps({**guess, **said, "id": name, "version": VERSION}))
        except NotUnderstood:  # a field has another shape now
            record = read_record(json.dumps(guess))
        record.pid, record.start_ticks, record.boot = pid, start_ticks(pid), boot_id()
        if not pid:
            record.pid, record.has_ended = 1, True
            record.reason = record.reason or "it ended while no server was looking"
        write_record(directory, record)

    def _slot(self, directory: Path) -> int:
        owner = (directory / "upper").stat().st_uid
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            number = json.loads((self._data_dir / "network.json").read_text())["block"]
            if (slot := Block(number, self._subnet).slot_of(owner)) is not None:
                return slot
        raise CannotAdopt(f"its files belong to user {owner}, which is no sandbox of this server")

    def _first_process(self, name: str) -> int:
        for pid in self._cgroups().processes(name):
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text().splitlines()
                seen = next(line for line in status if line.startswith("NSpid:")).split()
                if len(seen) > 2 and seen[-1] == "1":
                    return pid
        return 0

    def _socket(self, name: str) -> Path:
        return self._data_dir / "run" / "oci" / f"{name}.sock"

    def _cgroups(self) -> Cgroups:
        mounts = Path("/proc/self/mountinfo").read_text()
        return find_cgroups(cgroup_parent(self._data_dir), mounts)


def _said(directory: Path) -> dict[str, Any]:
    """Return what can be read of a record, whatever wrote it."""
    with contextlib.suppress(OSError, ValueError):
        said = json.loads((directory / RECORD).read_text())
        if isinstance(said, dict):
            return said
    return {}
