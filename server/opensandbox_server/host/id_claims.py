# SPDX-License-Identifier: Apache-2.0
"""Which server of this host has which part of the user ids, and which one its ingress has.

User ids are the host's own, also for servers in network namespaces of their own, who do not see
each other's bridges. A claim is a file that says whose it is, locked while that server runs. A
sandbox outlives its server, so the file stays until no sandbox has those ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

PLACE = Path("/run/opensandbox/ids")
INGRESS_PLACE = Path("/run/opensandbox/ingress")
INGRESS_IDS = range(0x3FFF_0000, 0x3FFF_0400)
"""One for ingress of each server, of any runtime: just below those of all sandboxes, and far from
those that people, packages and service managers give away."""


@dataclass(slots=True)
class Claim:
    """A part of the ids that is ours while this is open."""

    _descriptor: int

    def forget(self) -> None:
        """Leave the part to anybody: nothing has its ids any more."""
        os.ftruncate(self._descriptor, 0)

    def close(self) -> None:
        """Leave the part to a later server of the same owner, unless it was forgotten."""
        os.close(self._descriptor)


def claim_ids(number: int, ids: range, owner: str, place: Path = PLACE) -> Claim | None:
    """Take a part of the ids; None when another server has it, or something still runs with it."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(place / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        former = os.pread(descriptor, 4096, 0).decode(errors="replace")
        if former != owner and (_is_kept(former) or _is_used(ids)):
            return None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, owner.encode(), 0)
        undo.pop_all()
    return Claim(descriptor)


def _is_kept(owner: str) -> bool:
    """Say whether a server that does not run left sandboxes in its data directory."""
    sandboxes = Path(owner) / "sandboxes"
    return bool(owner) and sandboxes.is_dir() and any(sandboxes.glob("[!.]*"))


def _is_used(ids: range) -> bool:
    """Say whether a process of this host has one of the ids."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(FileNotFoundError):
                if entry.stat().st_uid in ids:
                    return True
    return False
