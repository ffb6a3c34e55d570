# SPDX-License-Identifier: Apache-2.0
"""What a node mounts, in a mount namespace of its own; the host never sees any of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

PLACES = {
    "/var/lib/kubelet": "kubelet",
    "/var/lib/cni": "cni",
    "/var/log": "log",
}
"""Fixed places of a node's programs, and the part of the node's directory that is mounted there."""

_KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""Settings of the whole host that a kubelet wants. It sees them as wanted, so it sets none."""

_NETWORK = {
    "net/ipv4/ip_forward": 1,
    "net/bridge/bridge-nf-call-iptables": 0,
    "net/ipv4/conf/all/rp_filter": 0,
}
"""Settings of the node's network namespace. What only crosses its bridge is not for its rules."""


def arrange(directory: Path) -> None:
    """Mount everything a node needs. Runs in the node's first process, before any program."""
    _mount("--make-rprivate", "/")
    _mount("-t", "proc", "proc", "/proc")
    resolver = Path("/etc/resolv.conf").resolve()
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    _allow_new_entries(Path("/var/lib"))
    for place, part in PLACES.items():
        (directory / part).mkdir(exist_ok=True)
        Path(place).mkdir(exist_ok=True)
        _mount("--bind", str(directory / part), place)
    (directory / "resolv.conf").write_text("# No name server: nothing is looked up beyond here.\n")
    resolver.parent.mkdir(parents=True, exist_ok=True)
    if not resolver.exists():  # it was below /run
        resolver.touch()
    _mount("--bind", str(directory / "resolv.conf"), str(resolver))
    _pretend_settings(directory / "settings")
    # A pod may ask that what it mounts is seen by others: all below the root is shared, in here.
    _mount("--make-rshared", "/")
    for name, value in _NETWORK.items():
        setting = Path("/proc/sys") / name
        if setting.exists():
            setting.write_text(f"{value}\n")


def _allow_new_entries(place: Path) -> None:
    """Replace a directory of the host by one in memory with the same entries.

    A directory to mount on can be made there without making it on the host, where somebody else
    might remove it, and the mount with it.
    """
    stash = Path("/run/stash")
    stash.mkdir()
    _mount("--rbind", str(place), str(stash))
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(place))
    for entry in stash.iterdir():
        copy = place / entry.name
        if entry.is_symlink():
            copy.symlink_to(entry.readlink())
            continue
        if entry.is_dir():
            copy.mkdir()
        else:
            copy.touch()
        _mount("--rbind", str(entry), str(copy))
    subprocess.run(["umount", "--lazy", "--recursive", str(stash)], check=True)
    stash.rmdir()


def _pretend_settings(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for name, value in _KERNEL.items():
        file = directory / name.replace("/", "-")
        file.write_text(f"{value}\n")
        _mount("--bind", str(file), f"/proc/sys/{name}")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
