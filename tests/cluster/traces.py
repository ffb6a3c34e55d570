# SPDX-License-Identifier: Apache-2.0
"""What a cluster leaves on the host: processes, namespaces, links, rules, mounts, cgroups, files.

Other programs share the host, so only what can be told to be the cluster's is looked at; settings
of the kernel are compared whole.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.cgroups import ROOT as CGROUPS
from tools.cluster.cluster import Cluster

_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "uts")
_SETTINGS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
    *("net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/netfilter/nf_conntrack_max"),
    *("net/ipv4/vs/conntrack", "net/bridge/bridge-nf-call-iptables"),
)
_PLACES = (
    *("/etc/cni", "/etc/kubernetes", "/opt/cni", "/opt/containerd", "/run/containerd"),
    *("/run/netns", "/usr/libexec/kubernetes", "/var/lib/cni", "/var/lib/containerd"),
    *("/var/lib/kubelet", "/var/run/kubernetes"),
)


@dataclass(frozen=True)
class Marks:
    """By what the things of a cluster are known; taken while it runs."""

    directory: str
    link: str
    addresses: str
    cgroup: str
    namespaces: frozenset[str]


def marks_of(cluster: Cluster) -> Marks:
    """Look at a cluster that runs, with its pods."""
    own = _namespaces(os.getpid())
    nodes = {node.pid for node in cluster.nodes}
    inside = {found for pid in _descendants(nodes) for found in _namespaces(pid)}
    return Marks(
        directory=str(cluster.layout.directory),
        link=cluster.layout.network.link,
        addresses=f"10.{cluster.layout.network.block}.",
        cgroup=cluster.layout.cgroup,
        namespaces=frozenset(inside - own),
    )


def remains(marks: Marks) -> dict[str, list[str]]:
    """Return what is left of the cluster, by kind; nothing is an empty dictionary."""
    found = {
        "processes": [
            f"{pid} {_command(pid)}"
            for pid in _processes()
            if marks.namespaces & _namespaces(pid) or marks.directory in _command(pid)
        ],
        "links": _lines(marks.link, "ip", "-oneline", "link"),
        "routes": _lines(marks.addresses, "ip", "route", "show", "table", "all"),
        "rules": [
            *_lines("kube", "nft", "list", "ruleset"),
            *_lines(marks.addresses, "nft", "list", "ruleset"),
        ],
        "mounts": [
            line
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if marks.directory in line or "kubelet" in line
        ],
        "cgroups": [str(path) for path in CGROUPS.glob(f"**/{marks.cgroup}")],
        "files": [marks.directory] if Path(marks.directory).exists() else [],
    }
    return {kind: things for kind, things in found.items() if things}


def settings() -> dict[str, str]:
    """Return what programs of a cluster like to change or make on the host."""
    values = {}
    for name in _SETTINGS:
        with suppress(FileNotFoundError):
            values[name] = (Path("/proc/sys") / name).read_text()
    return values | {place: str(Path(place).exists()) for place in _PLACES}


def _processes() -> list[int]:
    """One that ended and waits to be noticed by the host's first process does not count."""
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in found if _state(pid) not in {"Z", "X", ""}]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _descendants(roots: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid in _processes():
        with suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text()
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(pid)

    def below(pid: int) -> Iterator[int]:
        yield pid
        for child in children.get(pid, []):
            yield from below(child)

    return {pid for root in roots for pid in below(root)}


def _namespaces(pid: int) -> set[str]:
    found = set()
    for name in _NAMESPACES:
        with suppress(OSError):
            found.add(str(Path(f"/proc/{pid}/ns/{name}").readlink()))
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _lines(mark: str, *command: str) -> list[str]:
    if shutil.which(command[0]) is None:
        return []
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in listed.stdout.splitlines() if mark in line]
