# SPDX-License-Identifier: Apache-2.0
"""The image `host`: the programs of this machine, and nothing else of it.

What is made here is only the skeleton: empty directories, links and a small /etc of our own. The
host's /usr is mounted over it when a sandbox starts, with the host's ids, so that what only the
host's root may read nobody in a sandbox can.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PROGRAM_PATHS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_DIRECTORIES = (
    "dev etc home home/user mnt opt opt/opensandbox opt/opensandbox/python proc root run"
    " run/opensandbox srv sys tmp usr var var/cache var/lib var/log var/spool var/tmp workspace"
)
_USERS = (
    "root:x:0:0:root:/root:/bin/sh\n"
    "daemon:x:1:1:daemon:/:/usr/sbin/nologin\n"
    "www-data:x:33:33:www-data:/:/usr/sbin/nologin\n"
    "user:x:1000:1000:user:/home/user:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
)
_GROUPS = (
    "root:x:0:\ndaemon:x:1:\ntty:x:5:\nwww-data:x:33:\nstaff:x:50:\nuser:x:1000:\n"
    "nogroup:x:65534:\n"
)
_FILES = {
    "passwd": _USERS,
    "group": _GROUPS,
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\n",
    "hosts": "127.0.0.1\tlocalhost\n",
    "shells": "/bin/sh\n",
}
_COPIED_FILES = (
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "mime.types",
    "os-release",
    "protocols",
    "services",
)
_COPIED_TREES = (
    "alternatives",
    "ca-certificates/extracted",
    "ld.so.conf.d",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "ssl/certs",
)
"""World-readable parts of the host's /etc that its programs cannot do without."""


def host_paths() -> list[str]:
    """Return the directories of programs that are directories; the others are links into /usr."""
    return [path for path in PROGRAM_PATHS if Path(path).is_dir() and not Path(path).is_symlink()]


def make_skeleton(root: Path) -> None:
    """Make what lies under the host's directories; root must not exist yet."""
    root.mkdir(mode=0o755)
    for name in _DIRECTORIES.split():
        (root / name).mkdir(mode=0o755)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    (root / "root").chmod(0o700)
    os.chown(root / "home/user", 1000, 1000)
    for path in PROGRAM_PATHS:
        if Path(path).is_symlink():
            (root / path[1:]).symlink_to(Path(path).readlink())
        elif Path(path).is_dir():
            (root / path[1:]).mkdir(mode=0o755, exist_ok=True)
    _make_etc(root / "etc")


def _make_etc(etc: Path) -> None:
    for name, text in _FILES.items():
        (etc / name).write_text(text)
        (etc / name).chmod(0o644)
    for name in _COPIED_FILES:
        _copy_readable(Path("/etc") / name, etc / name)
    for name in _COPIED_TREES:
        source = Path("/etc") / name
        for directory, _, files in os.walk(source):
            for file in files:
                found = Path(directory) / file
                _copy_readable(found, etc / found.relative_to("/etc"))


def _copy_readable(source: Path, target: Path) -> None:
    """Copy a file everybody may read; a link into /usr stays a link, any other becomes a file."""
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if source.is_symlink() and _leads_to_programs(source):
        target.symlink_to(source.readlink())
    elif source.is_file() and source.stat().st_mode & 0o004:
        shutil.copyfile(source, target)
        target.chmod(0o644)


def _leads_to_programs(link: Path) -> bool:
    aim = os.path.normpath(link.parent / link.readlink())
    return aim.startswith(("/etc/alternatives/", *(f"{path}/" for path in PROGRAM_PATHS)))
