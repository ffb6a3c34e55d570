# SPDX-License-Identifier: Apache-2.0
"""Images without a registry: made here as a tar file, and loaded into the nodes from one."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.cluster.component import ClusterError

PAUSE = "localhost/pause:cluster"
BUSYBOX = "localhost/busybox:cluster"
SOCKET = "/run/containerd/containerd.sock"
_ACCOUNTS = {
    "etc/passwd": b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": b"hosts: files dns\n",
    "tmp/.keep": b"",
}
"""What busybox reads when it looks up a name; linked statically, it does not do without."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_image(
    file: Path, name: str, contents: Mapping[str, bytes | str], command: Sequence[str]
) -> None:
    """Write an image as `docker save` does: bytes are a program's, a string is a link's target."""
    layer = _tar(contents)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    documents = {
        "manifest.json": json.dumps(manifest).encode(),
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
    }
    file.write_bytes(_tar(documents))


def write_pause(file: Path, program: Path) -> None:
    """Write the image that every pod begins with."""
    write_image(file, PAUSE, {"pause": program.read_bytes()}, ["/pause"])


def write_busybox(file: Path, name: str = BUSYBOX, **more: bytes) -> None:
    """Write an image with every program of busybox, and further files in its root."""
    program = shutil.which("busybox")
    if program is None:
        raise ClusterError("busybox is not installed; run scripts/setup cluster")
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    links = {f"bin/{name}": "busybox" for name in listed.stdout.split() if name != "busybox"}
    program_file = {"bin/busybox": Path(program).read_bytes()}
    contents: dict[str, bytes | str] = {**program_file, **links, **_ACCOUNTS, **more}
    write_image(file, name, contents, ["/bin/sh"])


def load_image(file: Path, pid: int) -> None:
    """Load a tar file (`docker save`, OCI layout) into the node whose first process is `pid`."""
    reached = f"/proc/{pid}/root{SOCKET}"
    done = subprocess.run(
        ["ctr", "--address", reached, "--namespace", "k8s.io", "images", "import", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = done.stderr.strip().splitlines()
        raise ClusterError(f"{file} was not loaded: {reason[-1] if reason else 'ctr failed'}")


def _tar(contents: Mapping[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.mode = 0o755
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
