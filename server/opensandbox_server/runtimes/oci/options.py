# SPDX-License-Identifier: Apache-2.0
"""The table [oci] of the config file."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from opensandbox_server.errors import InvalidParameter
from opensandbox_server.runtimes.oci.bounds import (
    Limits,
    Machine,
    bounds,
    default_memory,
    default_pids,
)
from opensandbox_server.runtimes.oci.network.rules import NetworkOptions
from opensandbox_server.runtimes.quantities import parse_bytes

_PROGRAMS = ("", "crun", "runc")
_FORMER_KEYS = {"launcher": "program"}
"""What a key was called in 0.1.0 → what it is called now."""


@dataclass(frozen=True, slots=True)
class OCIOptions:
    """Every key, its default and what it is for."""

    program: str = ""
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
    """Most a sandbox has open, an eighth of all at most; it opens so many, then 1/32 a second."""
    all_connections: int = 0
    """While the host tracks more, no sandbox opens another; 0 is half of what the kernel can."""
    default_pids: int = 4096
    """Most processes and threads of a sandbox that asks for no limit; an eighth of all at most."""
    default_memory: str = "2Gi"
    """Memory of a sandbox that asks for no limit; half of the machine's at most. Empty: none."""
    all_pids: int = 0
    """Most processes and threads of all sandboxes together; 0: half of what the machine has."""
    all_memory: str = ""
    """Memory of all sandboxes together; empty leaves a tenth, at least 1 GiB or a quarter."""
    cache_dir: str = "/var/cache/opensandbox"
    """What servers of one machine share: the Python of the image host, made once."""

    def __post_init__(self) -> None:
        """Refuse values that cannot work. Raises ValueError."""
        if self.program not in _PROGRAMS:
            raise ValueError(f"oci.program: must be crun or runc, not {self.program}")
        for name in ("slots_ahead", "concurrent_starts", "connections", "default_pids"):
            _require_whole(name, getattr(self, name), 1)
        _require_whole("all_connections", self.all_connections, 0)
        _require_whole("all_pids", self.all_pids, 0)
        for name in ("default_memory", "all_memory"):
            _bytes(name, getattr(self, name))
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
    def network(self) -> NetworkOptions:
        """What of it the packet filter needs."""
        return NetworkOptions(
            nameserver=self.nameserver or None,
            allow=self.allow,
            deny=self.deny,
            connections=self.connections,
            all_connections=self.all_connections,
        )

    def bounds(self, machine: Machine) -> Limits:
        """Return what all sandboxes of a machine may use together."""
        return bounds(machine, _bytes("all_memory", self.all_memory), self.all_pids or None)

    def defaults(self, machine: Machine) -> Limits:
        """Return the limits of a sandbox that asks for none."""
        wanted, of_all = _bytes("default_memory", self.default_memory), self.bounds(machine).pids
        assert of_all is not None
        return Limits(
            memory_bytes=None if wanted is None else default_memory(wanted, machine),
            pids=default_pids(self.default_pids, of_all),
        )


def _require_whole(key: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        kind = "positive whole number" if least else "whole number"
        raise ValueError(f"oci.{key}: must be a {kind}, not {value!r}")


def _networks(key: str, texts: object) -> set[ipaddress.IPv4Network]:
    if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"oci.{key}: must be a list of ranges, not {texts!r}")
    return {_network(key, text) for text in texts}


def _bytes(key: str, text: str) -> int | None:
    try:
        return parse_bytes(key, text) if text else None
    except InvalidParameter:
        raise ValueError(f"oci.{key}: must be a size like 512Mi or 2Gi, not {text!r}") from None


def _network(key: str, text: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as fault:
        raise ValueError(f"oci.{key}: {fault}") from fault


def read_options(table: Mapping[str, object]) -> OCIOptions:
    """Read the table as written in the file. Raises ValueError that names the key."""
    known = {field.name for field in fields(OCIOptions)}
    for former, key in _FORMER_KEYS.items():
        if former in table and key in table:
            raise ValueError(f"oci.{former}: is called oci.{key} now; give one of them")
    table = {_FORMER_KEYS.get(key, key): value for key, value in table.items()}
    if unknown := sorted(set(table) - known):
        raise ValueError(f"oci.{unknown[0]}: unknown key; [oci] has {', '.join(sorted(known))}")
    values = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    for key in ("program", "subnet", "nameserver", "cache_dir", "default_memory", "all_memory"):
        if not isinstance(values.get(key, ""), str):
            raise ValueError(f"oci.{key}: must be a text")
    return OCIOptions(**values)  # type: ignore[arg-type]  # checked by __post_init__
