# SPDX-License-Identifier: Apache-2.0
"""What the embedded runtime needs of a host, looked at without changing anything."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from opensandbox_server.runtimes.base import Finding
from opensandbox_server.runtimes.oci.images.pack import NoPack, plan_pack
from opensandbox_server.runtimes.oci.launcher import seccomp
from opensandbox_server.runtimes.oci.launcher.cgroups.cgroups import find_cgroups
from opensandbox_server.runtimes.oci.launcher.cgroups.files import CgroupFault
from opensandbox_server.runtimes.oci.launcher.cgroups.v1 import CgroupsV1
from opensandbox_server.runtimes.oci.launcher.program import (
    SEARCH_PATH,
    Program,
    ProgramMissing,
    find_oci_program,
)
from opensandbox_server.runtimes.oci.network import conntrack, rules
from opensandbox_server.runtimes.oci.network.resolver import host_nameserver
from opensandbox_server.runtimes.oci.options import OCIOptions

OLDEST_KERNEL = (5, 19)
"""The first in which an overlay may lie on layers whose ids are mapped."""
SAFE_PROGRAMS = {"crun": (1, 14, 1), "runc": (1, 2, 8)}
"""The first that look where they are after they changed directory, and where masks lead."""
MANY_PIDS, MANY_FILES = 1 << 22, 1 << 40
"""What systemd sets at boot; memory is what bounds both then."""
_NEEDED = {"CHOWN": 0, "NET_ADMIN": 12, "SYS_ADMIN": 21, "SETUID": 7, "SETGID": 6}


def examine(execd: Path | None, options: OCIOptions) -> list[Finding]:
    """Look at everything. Works for any user."""
    checks: list[Callable[[], Finding]] = [
        check_privilege,
        check_kernel,
        lambda: check_program(options.program),
        check_seccomp,
        check_nft,
        lambda: check_connections(options.all_connections),
        check_cgroups,
        check_machine,
        check_user_namespaces,
        check_overlay,
        check_veth,
        lambda: check_resolver(options.nameserver),
        lambda: check_execd(execd),
        check_python,
    ]
    return [check() for check in checks]


def check_privilege() -> Finding:
    """Root with the capabilities that namespaces, mounts and links need."""
    if os.geteuid() != 0:
        message = "not root: namespaces with id ranges, overlays and links need it"
        fix = (
            "sudo opensandbox-server, or without root: opensandbox-server --runtime fake, "
            "whose sandboxes are unprotected processes of yours"
        )
        return Finding("privilege", False, message, fix)
    effective = _effective_capabilities(Path("/proc/self/status").read_text())
    missing = [name for name, bit in _NEEDED.items() if not effective >> bit & 1]
    if missing:
        message = f"root without {', '.join(missing)}: started in a container?"
        return Finding("privilege", False, message, "start the server outside of a container")
    return Finding("privilege", True, "root")


def check_kernel() -> Finding:
    """New enough for overlays on mapped layers."""
    release = platform.release()
    numbers = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    wanted = ".".join(str(part) for part in OLDEST_KERNEL)
    if numbers < OLDEST_KERNEL:
        return Finding("kernel", False, f"Linux {release}; {wanted} or newer is needed")
    return Finding("kernel", True, f"Linux {release}")


def check_program(chosen: str) -> Finding:
    """An OCI runtime."""
    try:
        program = find_oci_program(chosen, Path("/"))
    except ProgramMissing:
        missing = chosen or "crun"
        message = f"{missing} is not installed"
        return Finding("OCI runtime", False, message, f"sudo apt-get install -y {missing}")
    return judge_program(program)


def judge_program(program: Program) -> Finding:
    """Say which it is; our own checks close what an older one leaves open."""
    version = program_version(program.path)
    said = f"{program.name} {'.'.join(map(str, version)) or '?'} at {program.path}"
    if version < SAFE_PROGRAMS[program.name]:
        safe = ".".join(map(str, SAFE_PROGRAMS[program.name]))
        message = f"{said}; {safe} and newer protect themselves against more kinds of bad images"
        return Finding("OCI runtime", True, message, f"install {program.name} {safe} or newer")
    if program.name == "crun":
        return Finding("OCI runtime", True, said)
    message = f"{said}; crun starts sandboxes three times as fast"
    return Finding("OCI runtime", True, message, "sudo apt-get install -y crun")


def program_version(program: str) -> tuple[int, ...]:
    """Ask crun or runc for its version; nothing when it does not say."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"version (\d+(?:\.\d+)*)", done.stdout)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def check_seccomp() -> Finding:
    """libseccomp, and our profile compiles with it."""
    try:
        size = len(seccomp.compile_filter()) // 8
    except seccomp.SeccompUnavailable as fault:
        return Finding("seccomp", False, str(fault), "sudo apt-get install -y libseccomp2")
    return Finding("seccomp", True, f"the filter compiles to {size} instructions")


def check_nft() -> Finding:
    """Nftables, and a kernel that takes our rules, those of the bridge family too."""
    program = shutil.which("nft", path=SEARCH_PATH)
    if program is None:
        return Finding("nftables", False, "nft is missing", "sudo apt-get install -y nftables")
    if os.geteuid() != 0:
        return Finding("nftables", True, "nft is installed; only root can try the rules")
    refusal = _refusal_of_rules(program)
    if refusal:
        fix = "start a kernel that has CONFIG_NF_TABLES_INET, CONFIG_NF_TABLES_BRIDGE and NAT"
        return Finding("nftables", False, f"the kernel refuses our rules: {refusal}", fix)
    return Finding("nftables", True, "the kernel takes our rules")


def check_connections(bound: int) -> Finding:
    """Tracked connections can be forgotten when a sandbox ends, and more can be tracked."""
    if os.geteuid() != 0:
        return Finding("connections", True, "only root can ask the kernel about them")
    try:
        conntrack.forget(IPv4Address("255.255.255.255"))  # where no connection ever began
    except OSError as fault:
        fix = "sudo modprobe nf_conntrack_netlink"
        return Finding("connections", False, f"they cannot be forgotten: {fault.strerror}", fix)
    tracked, bound = conntrack.count(), bound or conntrack.most() // 2
    message = f"the host tracks {tracked}; over {bound}, sandboxes open no more"
    fix = f"sudo sysctl -w net.netfilter.nf_conntrack_max={4 * max(tracked, bound)}"
    return Finding("connections", tracked <= bound, message, fix if tracked > bound else "")


def check_cgroups() -> Finding:
    """A cgroup hierarchy with the controllers limits need."""
    try:
        found = find_cgroups("", Path("/proc/self/mountinfo").read_text())
    except CgroupFault as fault:
        return Finding("cgroups", False, str(fault), "sudo mount -t cgroup2 none /sys/fs/cgroup")
    return Finding("cgroups", True, "v1" if isinstance(found, CgroupsV1) else "v2")


def check_machine(kernel: Path = Path("/proc/sys")) -> Finding:
    """What a machine has once, and sandboxes could use up together with its own programs."""
    pids = int((kernel / "kernel/pid_max").read_text())
    files = int((kernel / "fs/file-max").read_text())
    low = [f"kernel.pid_max={MANY_PIDS}"] if pids < MANY_PIDS else []
    low += [f"fs.file-max={2**63 - 1}"] if files < MANY_FILES else []
    message = f"{pids} processes, {files} open files"
    if low:
        message += "; more let more sandboxes be full at once"
        return Finding("machine", True, message, f"sudo sysctl -w {' '.join(low)}")
    return Finding("machine", True, message)


def check_user_namespaces() -> Finding:
    """User namespaces are allowed."""
    most = Path("/proc/sys/user/max_user_namespaces")
    if not most.exists():
        return Finding("user namespaces", False, "this kernel was built without them")
    if most.read_text().strip() == "0":
        fix = "sudo sysctl -w user.max_user_namespaces=65536"
        return Finding("user namespaces", False, "they are switched off", fix)
    return Finding("user namespaces", True, f"up to {most.read_text().strip()}")


def check_overlay() -> Finding:
    """The overlay file system."""
    if "\toverlay\n" in Path("/proc/filesystems").read_text() or _has_module("overlay"):
        return Finding("overlay", True, "the kernel has it")
    return Finding(
        "overlay", False, "the kernel has no overlay file system", "sudo modprobe overlay"
    )


def check_veth() -> Finding:
    """Bridges and pairs of virtual interfaces."""
    missing = [name for name in ("bridge", "veth") if not _has_module(name)]
    if missing:
        message = f"the kernel module {missing[0]} is not there"
        return Finding("links", False, message, f"sudo modprobe {missing[0]}")
    return Finding("links", True, "bridge and veth are there")


def check_resolver(chosen: str) -> Finding:
    """Somebody to ask for names."""
    found = chosen or host_nameserver()
    if found:
        return Finding("resolver", True, f"sandboxes ask {found} for names")
    message = "the host has no IPv4 name server: names will not resolve in sandboxes"
    return Finding("resolver", False, message, 'set nameserver = "…" in [oci]')


def check_execd(execd: Path | None) -> Finding:
    """The program that runs in every sandbox."""
    if execd is None:
        return Finding("execd", False, "the execd program was not found", "make build")
    if not os.access(execd, os.X_OK):
        return Finding("execd", False, f"{execd} is not executable", f"chmod +x {execd}")
    return Finding("execd", True, f"{execd}")


def check_python() -> Finding:
    """What the Python pack of the image host is made of."""
    try:
        plan = plan_pack()
    except NoPack as fault:
        fix = f"{sys.executable} -m pip install --force-reinstall ipython"
        return Finding("python", False, f"sandboxes get no Python of ours: {fault}", fix)
    return Finding("python", True, f"{plan}, from {plan.interpreter.program}, for the image host")


def _refusal_of_rules(program: str) -> str:
    """Let the kernel check rules like ours without taking them; return what it has against them."""
    subnet = IPv4Network("192.0.2.0/24")
    text = rules.ruleset("osbtry", subnet, str(subnet[1]), rules.NetworkOptions("192.0.2.53"))
    text += rules.bindings("osbtry", [("osbtryv2", "02:6f:73:00:00:02", subnet[2])])
    done = subprocess.run(
        [program, "--check", "--file", "-"], input=text, capture_output=True, text=True, check=False
    )
    return " ".join(done.stderr.split()) if done.returncode else ""


def _effective_capabilities(status: str) -> int:
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _has_module(name: str) -> bool:
    """Say whether the kernel has a module, built in, loaded or loadable."""
    release = platform.release()
    if Path(f"/sys/module/{name}").exists():
        return True
    modules = Path(f"/lib/modules/{release}")
    if not modules.is_dir():  # a kernel without modules has everything built in
        return True
    listed = (modules / "modules.builtin", modules / "modules.dep")
    return any(f"/{name}.ko" in file.read_text() for file in listed if file.is_file())
