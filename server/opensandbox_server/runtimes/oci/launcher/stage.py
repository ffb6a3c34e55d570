# SPDX-License-Identifier: Apache-2.0
"""The launcher's own mount namespace, and the directory in it where bundles are put together.

Sandboxes can read in their mount table where things come from. Everything they get is therefore
taken from this place, which every user may enter and which says nothing about the host.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from opensandbox_server.runtimes.oci.launcher import syscalls
from opensandbox_server.runtimes.oci.launcher.cgroups.cgroups import hybrid_mount

PLACE = Path("/run/opensandbox/stage")
"""An empty directory on the host; in the launcher's namespace a tmpfs is mounted over it."""

_READONLY = syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV


class Stage:
    """Paths below PLACE, and what is mounted there once."""

    execd = PLACE / "execd"
    sandboxes = PLACE / "sandboxes"
    runtime_state = PLACE / "runtime"

    def __init__(self) -> None:
        """Know nothing shared yet."""
        self._shared: dict[str, Path] = {}
        self._packs: dict[int, Path] = {}
        self._sharing = threading.Lock()  # starts run beside each other

    def open(self, execd: Path, sandboxes: Path) -> None:
        """Leave the host's mount namespace. Only a process with one thread may call it."""
        PLACE.mkdir(mode=0o711, parents=True, exist_ok=True)
        syscalls.unshare(syscalls.CLONE_NEWNS)
        # A slave: what the host unmounts goes away here too, and nothing of ours is seen there.
        syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)
        self._hide_second_cgroup_tree()
        directory = syscalls.clone_tree(str(sandboxes))
        syscalls.mount("opensandbox", str(PLACE), "tmpfs", 0, "mode=0711")
        for place in (self.sandboxes, self.runtime_state, PLACE / "host", PLACE / "start"):
            place.mkdir(mode=0o711)
        syscalls.attach(directory, str(self.sandboxes))
        os.close(directory)
        shutil.copyfile(execd, self.execd)
        self.execd.chmod(0o755)

    def show(self, host_paths: Sequence[str], packs: Mapping[str, str]) -> dict[str, str]:
        """Have directories here, read-only and with the host's ids: seen at → shown here."""
        with self._sharing:
            shown = {path: str(self._share(path)) for path in host_paths}
            return shown | {place: str(self._pack(own)) for place, own in packs.items()}

    def _share(self, source: str) -> Path:
        if source not in self._shared:
            target = PLACE / "host" / source.strip("/").replace("/", "-")
            tree = syscalls.clone_tree(source)
            try:
                # Nor does anything come in that the host mounts there later.
                syscalls.set_mount_attributes(tree, _READONLY, propagation=syscalls.MS_PRIVATE)
                target.mkdir(mode=0o755)
                syscalls.attach(tree, str(target))
            finally:
                os.close(tree)
            self._shared[source] = target
        return self._shared[source]

    def _pack(self, directory: str) -> Path:
        inode = Path(directory).stat().st_ino  # one made again in its place is another
        if inode not in self._packs:
            self._packs[inode] = _mount_pack(directory, PLACE / f"pack-{inode}")
        return self._packs[inode]

    def bundle_dir(self, name: str) -> Path:
        """Make the directory in which one bundle is put together."""
        bundle_dir = PLACE / "start" / name
        bundle_dir.mkdir(mode=0o711)
        return bundle_dir

    def clear(self, name: str) -> None:
        """Take a bundle away; the sandbox keeps its mounts."""
        bundle_dir = PLACE / "start" / name
        for mounted in ("rootfs", "lower"):
            with contextlib.suppress(OSError):
                syscalls.detach(str(bundle_dir / mounted))
        shutil.rmtree(bundle_dir, ignore_errors=True)
        shutil.rmtree(self.runtime_state / name, ignore_errors=True)

    def _hide_second_cgroup_tree(self) -> None:
        if second := hybrid_mount(Path("/proc/self/mountinfo").read_text()):
            syscalls.mount("none", second, "tmpfs", 0, "size=4k")


def _mount_pack(directory: str, place: Path) -> Path:
    """Mount a pack as the only layer of an overlay.

    A bare mount would tell sandboxes where on the host the pack is kept.
    """
    lower, nothing, shown = (place / name for name in ("lower", "nothing", "shown"))
    for made in (place, lower, nothing, shown):
        made.mkdir(mode=0o755)
    tree = syscalls.clone_tree(directory)
    try:
        syscalls.attach(tree, str(lower))
    finally:
        os.close(tree)
    layers: dict[str, str | int | None] = {"source": "overlay", "lowerdir": f"{lower}:{nothing}"}
    overlay = syscalls.new_filesystem("overlay", layers)
    try:
        syscalls.set_mount_attributes(overlay, _READONLY)
        syscalls.attach(overlay, str(shown))
    finally:
        os.close(overlay)
    return shown
