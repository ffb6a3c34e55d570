# SPDX-License-Identifier: Apache-2.0
"""Whom sandboxes ask for names, by way of the bridge's address."""

from __future__ import annotations

import contextlib
from pathlib import Path

_FILES = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))
"""The first knows the real servers where the second names only a stub on the loopback."""


def host_nameserver() -> str | None:
    """Return whom the host asks; None when that is nobody with an IPv4 address."""
    for file in _FILES:
        with contextlib.suppress(OSError):
            if found := chosen_nameserver(file.read_text()):
                return found
    return None


def chosen_nameserver(resolv_conf: str) -> str | None:
    """Return the first IPv4 name server of a resolv.conf; None when there is none. Pure."""
    for line in resolv_conf.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver" and words[1].count(".") == 3:
            return words[1]
    return None
