# SPDX-License-Identifier: Apache-2.0
"""The table [oci] of the config file."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

_LAUNCHERS = ("", "crun", "runc")


@dataclass(frozen=True, slots=True)
class OCIOptions:
    """Every key, its default and what it is for."""

    launcher: str = ""
    """The OCI runtime: crun or runc; empty takes crun, else runc."""
    slots_ahead: int = 16
    """Network and user namespaces made ahead, so that a create does not wait for them."""
    concurrent_starts: int = max(2, min(4, os.cpu_count() or 2))
    """Starts at the same time; more only slow each other down."""
    subnet: str = "10.200.0.0/16"
    """Sandboxes get addresses from a part of it; choose one that nothing else here uses."""
    nameserver: str = ""
    """Where DNS questions of sandboxes go; empty asks whom the host asks."""
    allow: tuple[str, ...] = ()
    """Private ranges that sandboxes may reach in spite of the rules, a package mirror, say."""
    default_pids: int = 4096
    """Most processes and threads of a sandbox that asks for no limit of its own."""
    cache_dir: str = "/var/cache/opensandbox"
    """What servers of one machine share: the Python of the image host, made once."""

    def __post_init__(self) -> None:
        """Refuse values that cannot work. Raises ValueError."""
        if self.launcher not in _LAUNCHERS:
            raise ValueError(f"oci.launcher: must be crun or runc, not {self.launcher}")
        for name in ("slots_ahead", "concurrent_starts", "default_pids"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"oci.{name}: must be a positive whole number, not {value!r}")
        if _network("subnet", self.subnet).prefixlen > 16:
            raise ValueError("oci.subnet: must be a /16 or larger")
        if not self.cache_dir.startswith("/"):
            raise ValueError(f"oci.cache_dir: must be a whole path, not {self.cache_dir!r}")
        for allowed in self.allow:
            _network("allow", allowed)
        if self.nameserver:
            try:
                ipaddress.IPv4Address(self.nameserver)
            except ValueError as fault:
                raise ValueError(f"oci.nameserver: {fault}") from fault


def _network(key: str, text: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as fault:
        raise ValueError(f"oci.{key}: {fault}") from fault


def read_options(table: Mapping[str, object]) -> OCIOptions:
    """Read the table as written in the file. Raises ValueError that names the key."""
    known = {field.name for field in fields(OCIOptions)}
    if unknown := sorted(set(table) - known):
        raise ValueError(f"oci.{unknown[0]}: unknown key; [oci] has {', '.join(sorted(known))}")
    values = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    for key in ("launcher", "subnet", "nameserver", "cache_dir"):
        if not isinstance(values.get(key, ""), str):
            raise ValueError(f"oci.{key}: must be a text")
    return OCIOptions(**values)  # type: ignore[arg-type]  # checked by __post_init__
