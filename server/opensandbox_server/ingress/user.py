# SPDX-License-Identifier: Apache-2.0
"""Who ingress runs as: nobody else of this host, and another for each server."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opensandbox_server.errors import StartupError
from opensandbox_server.host.id_claims import INGRESS_IDS, INGRESS_PLACE, Claim, claim_ids
from opensandbox_server.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Identity:
    """A user and its one group."""

    uid: int
    gid: int


@contextlib.contextmanager
def ingress_identity(settings: Settings) -> Iterator[Identity | None]:
    """Yield who ingress becomes: an id that no other server has until this is left.

    None when the server is not root and both are the same user. Raises StartupError.
    """
    chosen = chosen_identity(settings)
    if chosen or os.geteuid() != 0:
        yield chosen
        return
    own, claim = _claim(str(settings.data_dir.resolve()))
    try:
        yield Identity(own, own)
    finally:
        claim.close()


def chosen_identity(settings: Settings) -> Identity | None:
    """Return whom the operator named, if anybody. Raises StartupError for nobody known."""
    name = settings.server.ingress_user
    if not name or os.geteuid() != 0:
        return None
    uid, colon, gid = name.partition(":")
    if colon and uid.isdigit() and gid.isdigit() and int(uid) and int(gid):
        return Identity(int(uid), int(gid))
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise StartupError(f"server.ingress_user: there is no user {name}") from None
    return Identity(user.pw_uid, user.pw_gid)


def _claim(owner: str) -> tuple[int, Claim]:
    """Take an id, the same at each start unless another server has it by then."""
    remedy = "name who ingress runs as with server.ingress_user"
    if not all(_is_mapped(INGRESS_IDS, kind) for kind in ("uid", "gid")):
        raise StartupError(f"this user namespace has no id that is free for ingress; {remedy}")
    count = len(INGRESS_IDS)
    first = int.from_bytes(hashlib.sha256(owner.encode()).digest()) % count
    try:
        for number in range(first, first + count):
            own = INGRESS_IDS[number % count]
            if claim := claim_ids(own, range(own, own + 1), owner, INGRESS_PLACE):
                return own, claim
    except OSError as fault:
        raise StartupError(
            f"cannot claim an id for ingress in {INGRESS_PLACE}: {fault.strerror}; {remedy}"
        ) from fault
    raise StartupError(f"all ids for ingress are in use by other servers; {remedy}")


def _is_mapped(ids: range, kind: str) -> bool:
    """Say whether the user namespace of this process has all of the ids."""
    for line in Path(f"/proc/self/{kind}_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= ids[0] and ids[-1] < first + count:
            return True
    return False
