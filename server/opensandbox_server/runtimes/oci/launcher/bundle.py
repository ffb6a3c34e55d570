# SPDX-License-Identifier: Apache-2.0
"""From what is wanted to an OCI config. Pure: nothing here opens, mounts or asks anything."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opensandbox_server.runtimes.base import SandboxSpec
from opensandbox_server.runtimes.execd_token import token_flags
from opensandbox_server.runtimes.oci.launcher.cgroups.tree import DEVICES, VIEW
from opensandbox_server.runtimes.oci.protocol import Start

EXECD = "/opt/opensandbox/execd"
STATE_DIR = "/run/opensandbox"
STATE_BYTES = 256 * 1024 * 1024
"""Journals of command output; a tmpfs, so it counts as memory: see state_bytes."""
SOCKET_FD, COMMANDS_FD = 3, 4
OOM_SCORE = 500
"""When the machine runs out of memory, sandboxes go before anything of the host."""
SHM_BYTES = 64 * 1024 * 1024
DEV_SIZE = "size=1m"
"""For links and a few nodes; whoever is root in a sandbox may put files there."""
TERMINALS = 256
"""Most terminals of one sandbox: all of a machine share a few thousand."""
SECCOMP_ANNOTATION = "run.oci.seccomp_bpf_data"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

CAPABILITIES = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_SETFCAP",
    "CAP_NET_BIND_SERVICE",
    "CAP_SYS_CHROOT",
)
MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the launcher has ready for one start."""

    rootfs: str
    execd: str
    userns: str
    netns: str
    first_id: int
    shared: Mapping[str, str] = field(default_factory=dict)
    """Where the sandbox sees a directory → where the launcher shows it."""
    seccomp: Mapping[str, Any] | None = None
    """The profile, for a runtime that compiles it; else filter is used."""
    filter: bytes | None = None
    cgroup: str | None = None
    """Where the runtime puts the sandbox; None when the launching thread is there already."""
    views: Mapping[str, str] = field(default_factory=dict)
    """Where the sandbox sees its own cgroups → their directories on the host."""


def config(start: Start, around: Surroundings) -> dict[str, Any]:
    """Return config.json of the bundle."""
    whole: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "hostname": hostname(start.spec),
        "root": {"path": around.rootfs, "readonly": start.spec.is_readonly},
        "process": _process(start),
        "mounts": _mounts(start, around),
        "linux": _linux(around),
    }
    if around.filter is not None:
        whole["annotations"] = {SECCOMP_ANNOTATION: base64.b64encode(around.filter).decode()}
    return whole


def hostname(spec: SandboxSpec) -> str:
    """Return the name the sandbox has for itself."""
    return spec.hostname or spec.id[:12].rstrip("-_.") or "sandbox"


def arguments(start: Start) -> list[str]:
    """Return the command line of PID 1."""
    flags = ["--listen", f"fd://{SOCKET_FD}", *token_flags(start.token_sha256)]
    flags += ["--commands-cgroup-fd", str(COMMANDS_FD)]
    flags += ["--state-dir", STATE_DIR, "--log-level", "4"]
    return [EXECD, *flags, "--", *start.spec.entrypoint]


def state_bytes(memory: int | None) -> int:
    """Return how large the journals may be: at most a quarter of the memory."""
    return STATE_BYTES if memory is None else min(STATE_BYTES, memory // 4)


def shm_bytes(memory: int | None) -> int:
    """Return how large shared memory may be: files there stay when processes are killed for it."""
    return SHM_BYTES if memory is None else min(SHM_BYTES, memory // 4)


def environment(start: Start) -> list[str]:
    """Return the environment; what the platform sets wins over the image and the request."""
    defaults = {"PATH": DEFAULT_PATH, "HOME": "/root" if start.image.uid == 0 else "/"}
    fixed = {"OPENSANDBOX_ID": start.spec.id, "EXECD_INIT": "1"}
    chosen = {**defaults, **start.image.env, **start.spec.env, **fixed}
    return [f"{name}={value}" for name, value in chosen.items()]


def _process(start: Start) -> dict[str, Any]:
    kept = list(CAPABILITIES)
    return {
        "terminal": False,
        "user": {"uid": start.image.uid, "gid": start.image.gid},
        "args": arguments(start),
        "env": environment(start),
        "cwd": start.image.cwd,
        "oomScoreAdj": OOM_SCORE,
        "noNewPrivileges": True,
        "capabilities": {"bounding": kept, "effective": kept, "permitted": kept},
    }


def _mounts(start: Start, around: Surroundings) -> list[dict[str, Any]]:
    safe = ["nosuid", "noexec", "nodev"]
    tty = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]
    tty.append(f"max={TERMINALS}")
    shm = f"size={shm_bytes(start.limits.memory_bytes)}"
    own = [f"uid={start.image.uid}", f"gid={start.image.gid}"]
    state = ["nosuid", "nodev", "mode=0700", f"size={state_bytes(start.limits.memory_bytes)}", *own]
    mounts = [
        _mount("/proc", "proc", "proc", safe),
        _mount("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", DEV_SIZE]),
        _mount("/dev/pts", "devpts", "devpts", tty),
        _mount("/dev/shm", "tmpfs", "shm", [*safe, "mode=1777", shm]),
        _mount("/dev/mqueue", "mqueue", "mqueue", safe),
        _mount("/sys", "sysfs", "sysfs", [*safe, "ro"]),
        *_cgroup_mounts(around.views),
    ]
    for source, shown in around.shared.items():
        mounts.append(_mount(source, "bind", shown, ["bind", "ro", "nosuid", "nodev"]))
    mounts.append(_mount(STATE_DIR, "tmpfs", "opensandbox", state))
    mounts.append(_mount(EXECD, "bind", around.execd, ["bind", "ro", "nosuid", "nodev"]))
    return mounts


def _cgroup_mounts(views: Mapping[str, str]) -> list[dict[str, Any]]:
    """Show a sandbox its limits and what it uses: its own cgroups, nothing above or beside them."""
    safe = ["nosuid", "noexec", "nodev", "ro"]
    # Several cgroups need directories to be mounted on, which sysfs does not make.
    places = [] if VIEW in views else [_mount(VIEW, "tmpfs", "cgroup", [*safe, "mode=755"])]
    binds = [_mount(place, "bind", source, ["bind", *safe]) for place, source in views.items()]
    return [*places, *binds] if views else []


def _mount(destination: str, kind: str, source: str, options: Sequence[str]) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}


def _linux(around: Surroundings) -> dict[str, Any]:
    mapping = [{"containerID": 0, "hostID": around.first_id, "size": 65536}]
    linux: dict[str, Any] = {
        "namespaces": [
            {"type": "user", "path": around.userns},
            {"type": "network", "path": around.netns},
            *({"type": kind} for kind in ("pid", "ipc", "uts", "mount", "cgroup")),
        ],
        "uidMappings": mapping,
        "gidMappings": mapping,
        "maskedPaths": list(MASKED),
        "readonlyPaths": list(READONLY),
    }
    if around.seccomp is not None:
        linux["seccomp"] = around.seccomp
    if around.cgroup is not None:
        # Its limits are there already: the launcher made the cgroup.
        devices = [{"allow": False, "access": "rwm"}, *(_device(*device) for device in DEVICES)]
        linux |= {"cgroupsPath": around.cgroup, "resources": {"devices": devices}}
    return linux


def _device(kind: str, major: int, minor: int | None, access: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"allow": True, "type": kind, "major": major, "access": access}
    return entry if minor is None else entry | {"minor": minor}
