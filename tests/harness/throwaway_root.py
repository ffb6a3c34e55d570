# SPDX-License-Identifier: Apache-2.0
"""A root file system in memory with busybox and nothing else, in namespaces of its own.

A daemon in it may be told to delete / or to run anything: no file, process or network of the
machine is within its reach, and everything it started dies with it.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

BUSYBOX = Path("/bin/busybox")

# What a sandbox keeps when its runtime has set it up; above all no SYS_ADMIN, MKNOD or SYS_BOOT.
CAPABILITIES = (
    *("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid"),
    *("setpcap", "setfcap", "net_bind_service", "sys_chroot"),
)

# $1 is an empty directory, $2 the daemon, $3 busybox, $4 the bounding set; the rest is the daemon's
# command line. Programs and devices are copies: what is bound from the machine could be overwritten
# there, or lose its mode. (Whoever may not make devices may not change the machine's either.)
# Capabilities are dropped last, because mounting needs one of them.
_ENTER = r"""
set -e
root=$1 daemon=$2 busybox=$3 bounding=$4; shift 4
mount -t tmpfs -o size=1g,mode=755 execd-root "$root"
cd "$root"
mkdir -p bin dev/pts etc home/app opt/opensandbox proc root run state tmp work
chmod 1777 tmp
cp "$busybox" bin/busybox
cp "$daemon" execd
chroot . /bin/busybox --install -s /bin
mount -t proc proc proc
for name in sys sysrq-trigger irq bus fs; do
  test -e "proc/$name" || continue
  mount --bind "proc/$name" "proc/$name"
  mount -o remount,bind,ro "proc/$name"
done
for device in null:3 zero:5 full:7 random:8 urandom:9; do
  name=${device%:*}
  mknod -m 666 "dev/$name" c 1 "${device#*:}" 2>/dev/null && continue
  touch "dev/$name"
  mount --bind "/dev/$name" "dev/$name"
done
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
printf '%s\n' root:x:0:0:root:/root:/bin/sh app:x:1000:1000:app:/home/app:/bin/sh \
  nobody:x:65534:65534:nobody:/nonexistent:/bin/false >etc/passwd
printf '%s\n' root:x:0: app:x:1000: nogroup:x:65534: >etc/group
printf '127.0.0.1 localhost\n' >etc/hosts
"$busybox" ip link set lo up
exec setpriv --no-new-privs --bounding-set "$bounding" chroot "$root" /execd "$@"
"""

WORKDIR = "/work"
STATE = "/state"


@functools.cache
def missing() -> str | None:
    """Say what this machine lacks for a throw-away root, or None."""
    if not BUSYBOX.exists():
        return f"{BUSYBOX} is missing; on Debian and Ubuntu: apt-get install busybox-static"
    for program in ("unshare", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} of util-linux is missing"
    trial = subprocess.run([*_namespaces(), "true"], capture_output=True, text=True, check=False)
    return f"no namespaces for us here: {trial.stderr.strip()}" if trial.returncode else None


def command(mount_point: Path, binary: Path) -> list[str]:
    """Return the command line that runs ``binary`` there; the daemon's arguments follow it."""
    bounding = ",".join(["-all", *(f"+{name}" for name in CAPABILITIES)])
    paths = [str(mount_point), str(binary), str(BUSYBOX), bounding]
    return [*_namespaces(), "sh", "-c", _ENTER, "enter-root", *paths]


def _namespaces() -> list[str]:
    # An ordinary user gets the right to mount only in a user namespace.
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    own = ["--mount", "--pid", "--net", "--ipc", "--uts"]
    return ["unshare", *user, *own, "--fork", "--kill-child", "--"]
