# SPDX-License-Identifier: Apache-2.0
"""What the root file system of a virtual machine is made of."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLONE = "/srv/opensandbox"
"""Where the machine sees this clone, on a disk of its own."""
ENVIRONMENT = "/srv/environment"
"""The virtual environment there: every package but our own, which come with the clone."""
PORT = "opensandbox"
"""The serial port by which the machine is told what to run."""

MIRRORS = ("http://deb.debian.org/debian", "http://deb.debian.org/debian-security")
PACKAGES = (
    # a Debian that boots
    *("linux-image-amd64", "initramfs-tools", "zstd", "systemd-sysv", "udev", "kmod", "dbus"),
    *("apparmor", "iproute2", "procps", "e2fsprogs", "util-linux", "ca-certificates"),
    # what `scripts/setup run` installs
    *("python3", "python3-venv", "crun", "nftables", "libseccomp2"),
    # what tests use
    *("busybox-static", "sqlite3", "runc", "iptables"),
)
MODULES = ("virtio_pci", "virtio_blk", "ext4")
"""What the kernel needs to find its root."""
_UNUSED = (
    *("drivers/gpu", "drivers/media", "drivers/infiniband", "drivers/net/ethernet"),
    *("drivers/net/wireless", "drivers/staging", "drivers/scsi", "sound"),
)
_NOT_INSTALLED = (
    *(f"/lib/modules/*/kernel/{name}/*" for name in _UNUSED),
    *(f"/usr/lib/modules/*/kernel/{name}/*" for name in _UNUSED),
    *("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"),
)
_MEMBERS = ("sdks/python", "sdks/code-interpreter", "server", "cli")
_TEST_PACKAGES = ("httpx", "pytest", "pytest-timeout", "pytest-xdist", "pyyaml")

_AGENT = f"""\
[Unit]
Description=Runs what the host asks for
RequiresMountsFor={CLONE}

[Service]
ExecStart={ENVIRONMENT}/bin/python {CLONE}/tests/vm/agent.py
WorkingDirectory={CLONE}
Environment=HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
Environment=XDG_CACHE_HOME=/var/cache
TasksMax=infinity
LimitNOFILE=1048576
OOMPolicy=continue
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
"""
_LOGIN = """\
[Service]
ExecStart=
ExecStart=-/sbin/agetty --autologin root --keep-baud 115200 %I linux
"""
_NETWORK = """\
[Match]
Name=en* eth*

[Network]
DHCP=ipv4
"""
_PATIENCE = """\
[Manager]
DefaultTimeoutStartSec=15min
DefaultTimeoutStopSec=15min
DefaultDeviceTimeoutSec=15min
"""
"""On a crowded host even a disk takes longer to be found than the 90 s that systemd waits."""
FILES = {
    "etc/fstab": f"LABEL=clone {CLONE} ext4 x-systemd.device-timeout=15min 0 0\n",
    "etc/hostname": "vm\n",
    "etc/hosts": "127.0.0.1 localhost vm\n::1 localhost\n",
    "etc/machine-id": "",
    "etc/resolv.conf": "nameserver 10.0.2.3\n",
    "etc/systemd/system.conf.d/vm.conf": _PATIENCE,
    "etc/systemd/network/vm.network": _NETWORK,
    "etc/systemd/system/agent.service": _AGENT,
    "etc/systemd/system/serial-getty@ttyS0.service.d/login.conf": _LOGIN,
}
_SETTLE = (
    "systemctl enable --quiet agent.service systemd-networkd.service",
    "systemctl mask --quiet systemd-networkd-wait-online.service apt-daily.timer"
    " apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer dpkg-db-backup.timer",
    "passwd --quiet --delete root",
    # Made here in seconds, instead of after every boot in minutes: compiled modules, and the
    # Python of the image `host`.
    f"{ENVIRONMENT}/bin/python -m compileall -q -j 2 /usr/lib/python3 {ENVIRONMENT}/lib || true",
    f"cd {CLONE}/tests/vm && {ENVIRONMENT}/bin/python pack.py",
    f"find {CLONE} -mindepth 1 -delete",
)


@dataclass(frozen=True)
class Suite:
    """A release of Debian."""

    name: str
    number: int
    python: str


SUITES = {
    "bookworm": Suite("bookworm", 12, "3.11"),
    "trixie": Suite("trixie", 13, "3.13"),
}


def mmdebstrap(suite: Suite, target: Path, additions: Path) -> list[str]:
    """Return how the root is made at target; additions has files to put over it."""
    words = ["mmdebstrap", "--mode=root", "--variant=minbase", "--quiet"]
    words.append(f"--include={','.join(PACKAGES)}")
    words += [f"--dpkgopt=path-exclude={pattern}" for pattern in _NOT_INSTALLED]
    # Read by the hook that makes the initial file system when the kernel is installed.
    config = '"$1"/etc/initramfs-tools'
    words += [
        f"--essential-hook=mkdir -p {config}/conf.d",
        f"--essential-hook=printf '%s\\n' MODULES=list BUSYBOX=n >{config}/conf.d/vm",
        f"--essential-hook=printf '%s\\n' {' '.join(MODULES)} >{config}/modules",
        f'--customize-hook=cp -a "{additions}/." "$1/"',
    ]
    words += [f'--customize-hook=chroot "$1" sh -ec "{command}"' for command in _SETTLE]
    main, security = MIRRORS
    return [
        *(*words, suite.name, str(target)),
        f"deb {main} {suite.name} main",
        f"deb {main} {suite.name}-updates main",
        f"deb {security} {suite.name}-security main",
    ]


def requirements() -> tuple[list[str], list[str]]:
    """Return what is installed with its exact versions, and what holds the rest to theirs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = [
        entry
        for entry in project["dependency-groups"]["dev"]
        if entry.partition("==")[0] in _TEST_PACKAGES
    ]
    for member in _MEMBERS:
        pinned += ["--editable", str(ROOT / member)]
    return pinned, project["tool"]["uv"]["constraint-dependencies"]


def fingerprint(suite: Suite) -> str:
    """Return a name for what the recipe gives; it changes with everything it is made of."""
    digest = hashlib.sha256(suite.name.encode())
    here, images = Path(__file__).parent, ROOT / "server/opensandbox_server/runtimes/oci/images"
    inputs = [Path(__file__), here / "image.py", here / "pack.py"]
    # A pack that is made in another way would be made again, after every boot.
    inputs += [images / f"{name}.py" for name in ("pack", "distributions", "interpreter")]
    inputs += [ROOT / member / "pyproject.toml" for member in _MEMBERS]
    for file in inputs:
        digest.update(file.read_bytes())
    # Of pyproject.toml only what is installed: the rest of it is about tools.
    wanted, constraints = requirements()
    pinned = [entry for entry in wanted if not entry.startswith(str(ROOT))]
    digest.update("\n".join([*pinned, *constraints]).encode())
    return digest.hexdigest()[:16]
