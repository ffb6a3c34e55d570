# SPDX-License-Identifier: Apache-2.0
"""The table [oci] of the config file."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from opensandbox_server.runtimes.oci.rules import Reach

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
    deny: tuple[str, ...] = ()
    """More ranges that sandboxes may not reach. Where allow and deny overlap, the narrower wins."""
    connections: int = 4096
    """Most connections a sandbox has open at once; it opens so many at once, then 1/32 a second."""
    all_connections: int = 0
    """While the host tracks more, no sandbox opens another; 0 is half of what the kernel can."""
    default_pids: int = 4096
    """Most processes and threads of a sandbox that asks for no limit of its own."""
    cache_dir: str = "/var/cache/opensandbox"
    """What servers of one machine share: the Python of the image host, made once."""

    def __post_init__(self) -> None:
        """Refuse values that cannot work. Raises ValueError."""
        if self.launcher not in _LAUNCHERS:
            raise ValueError(f"oci.launcher: must be crun or runc, not {self.launcher}")
        for name in ("slots_ahead", "concurrent_starts", "connections", "default_pids"):
            _require_whole(name, getattr(self, name), 1)
        _require_whole("all_connections", self.all_connections, 0)
        if _network("subnet", self.subnet).prefixlen > 16:
            raise ValueError("oci.subnet: must be a /16 or larger")
        if not self.cache_dir.startswith("/"):
            raise ValueError(f"oci.cache_dir: must be a whole path, not {self.cache_dir!r}")
        allowed, denied = _networks("allow", self.allow), _networks("deny", self.deny)
        if both := sorted(allowed & denied):
            raise ValueError(f"oci.deny: {both[0]} is in oci.allow as well")
        if self.nameserver:
            try:
                ipaddress.IPv4Address(self.nameserver)
            except ValueError as fault:
                raise ValueError(f"oci.nameserver: {fault}") from fault

    @property
    def reach(self) -> Reach:
        """What of it the packet filter needs."""
        return Reach(
            nameserver=self.nameserver or None,
            allow=self.allow,
            deny=self.deny,
            connections=self.connections,
            all_connections=self.all_connections,
        )


def _require_whole(key: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        kind = "positive whole number" if least else "whole number"
        raise ValueError(f"oci.{key}: must be a {kind}, not {value!r}")


def _networks(key: str, texts: object) -> set[ipaddress.IPv4Network]:
    if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"oci.{key}: must be a list of ranges, not {texts!r}")
    return {_network(key, text) for text in texts}


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
