# SPDX-License-Identifier: Apache-2.0
"""Packets of sandboxes are forwarded, and the host does not become a router by that.

`net.ipv4.ip_forward` would let everybody's packets pass between all networks of the host. Every
interface has a switch of its own: those are set, with a table of rules that drops what is neither
from nor to a bridge of ours. The common switch stays off, so that a Docker engine or whoever else
needs it finds it off, sets it and knows what that means. From then on it is theirs to guard.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from opensandbox_server.runtimes.oci.network import rules
from opensandbox_server.runtimes.oci.network.nft import nft

LOCK = Path("/run/opensandbox/forwarding.lock")
"""Servers come and go beside each other, and share the switches."""
_SWITCHES = Path("/proc/sys/net/ipv4/conf")
_BRIDGE = re.compile(r"osb\d+")
_NOT_ROUTED = re.compile(r"all|lo|osb\d+v\d+")
"""The common switch, what never receives a packet for others, and ports of a bridge."""


def allow_forwarding(bridges: Sequence[str], *, was_guarded: bool = False) -> bool:
    """Have packets forwarded from now on; say whether only those of bridges with these names are.

    Repeats safely. A server that guarded before does so again when somebody removed the rules.
    """
    with _alone():
        is_guarded = _is_guarded()
        if _is_on("all"):
            if is_guarded:
                nft(rules.unguarded())
            return False
        # Who switched on single interfaces, and not all, means just those: nothing is dropped then.
        if not is_guarded and (was_guarded or not any(_is_on(name) for name in _routed())):
            nft(rules.guarded(bridges))
            is_guarded = True
        _switch("1")
        return is_guarded


def leave_forwarding() -> None:
    """Undo it when no server needs it any more; what others switched on stays on."""
    with _alone():
        if any(_BRIDGE.fullmatch(name) for _, name in socket.if_nameindex()):
            return
        if _is_guarded():
            if not _is_on("all"):
                _switch("0")
            nft(rules.unguarded())


def _is_guarded() -> bool:
    return bool(nft(rules.guard_listed(), is_allowed_to_fail=True))


def _routed() -> list[str]:
    return [one.name for one in _SWITCHES.iterdir() if not _NOT_ROUTED.fullmatch(one.name)]


def _is_on(name: str) -> bool:
    try:
        return (_SWITCHES / name / "forwarding").read_text().strip() == "1"
    except FileNotFoundError:  # the interface is gone
        return False


def _switch(value: str) -> None:
    for name in _routed():
        with contextlib.suppress(FileNotFoundError):
            switch = _SWITCHES / name / "forwarding"
            if switch.read_text().strip() != value:
                switch.write_text(value)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    LOCK.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
