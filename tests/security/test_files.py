# SPDX-License-Identifier: Apache-2.0
"""What a sandbox sees of the machine, and what it can write there."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.images import Image
from opensandbox_server.runtimes.oci.launcher.bundle import MASKED, READONLY
from tests.harness.runtime import Home

TTL = "/proc/sys/net/ipv4/ip_default_ttl"


def test_sysctls_are_read_only(home: Home) -> None:
    attack = f"echo 77 > {TTL} && cat {TTL}"
    assert home.start(without=("paths", "capabilities")).sh(attack).output == "77"
    strong = home.start(without=("capabilities",)).sh(attack)
    assert strong.status != 0
    assert "Read-only file system" in strong.output


def test_sysfs_is_read_only(home: Home) -> None:
    mtu = "/sys/class/net/eth0/mtu"
    attack = f"echo 1400 > {mtu} && cat {mtu}"
    assert home.start(without=("paths", "capabilities")).sh(attack).output == "1400"
    strong = home.start(without=("capabilities",)).sh(attack)
    assert strong.status != 0
    assert "Read-only file system" in strong.output


@pytest.mark.parametrize("path", READONLY)
def test_a_part_of_proc_that_acts_on_the_machine_is_read_only(home: Home, path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"this kernel has no {path}")
    ask = f"import os; print(bool(os.statvfs({path!r}).f_flag & os.ST_RDONLY))"
    assert home.start(without=("paths",)).python(ask).output == "False"
    assert home.start().python(ask).output == "True"


@pytest.mark.parametrize(
    "path",
    [
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/drop_caches",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ],
)
def test_the_kernel_cannot_be_written_to(home: Home, path: str) -> None:
    """What protects here are the ids: outside they let us in, inside they alone are enough."""
    if not Path(path).exists():
        pytest.skip(f"this kernel has no {path}")
    os.close(os.open(path, os.O_WRONLY))  # opened only: nothing is written on the way
    attack = f"import os; os.open({path!r}, os.O_WRONLY); print('opened')"
    for without in (("paths", "capabilities", "seccomp"), ()):
        assert "PermissionError" in home.start(without=without).python(attack).output


@pytest.mark.parametrize("path", MASKED)
def test_what_tells_of_the_whole_machine_is_empty(home: Home, path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"this kernel has no {path}")
    read = f"[ -d {path} ] && ls -A {path} || head -c 100 {path}"
    assert home.start().sh(read).output == ""
    seen = home.start(without=("paths",)).sh(read).output
    if not seen or "Permission denied" in seen:
        pytest.skip(f"this kernel itself shows a sandbox nothing in {path}")


def test_sysfs_shows_only_its_own_interfaces(home: Home) -> None:
    assert home.start().sh("ls /sys/class/net").output.split() == ["eth0", "lo"]


def test_nothing_of_the_host_but_its_programs_is_there(home: Home, tmp_path: Path) -> None:
    secret = _enterable(tmp_path) / "secret"
    secret.write_text("hidden")
    _add_image_that_shows(home, "with-secret", tmp_path)
    assert home.start("with-secret").sh(f"cat {secret}").output == "hidden"
    box = home.start(without=("untraceable",))
    for place in (secret, f"/proc/1/root{secret}", f"/proc/1/cwd/../../../..{secret}"):
        assert "No such file" in box.sh(f"cat {place}").output
    assert box.sh("cat /etc/shadow").status != 0
    assert box.sh("ls -A /root /home/user /tmp /workspace /var/log").output.split() == [
        "/home/user:",
        "/root:",
        "/tmp:",
        "/var/log:",
        "/workspace:",
    ]
    users = [line.split(":")[0] for line in box.sh("cat /etc/passwd").output.splitlines()]
    assert users == ["root", "daemon", "www-data", "user", "nobody"]


def test_the_mount_table_does_not_name_the_data_directory(home: Home) -> None:
    box = home.start()
    seen = box.sh("cat /proc/1/mountinfo /proc/net/unix").output
    assert "/opt/opensandbox/execd" in seen
    assert str(home.data_dir) not in seen


def test_files_of_the_hosts_root_stay_closed_where_ids_are_not_mapped(
    home: Home, tmp_path: Path
) -> None:
    shared = _enterable(tmp_path) / "shared"
    shared.mkdir(mode=0o755)
    (shared / "private").write_text("root only")
    (shared / "private").chmod(0o600)
    _add_image_that_shows(home, "with-private", shared)
    box = home.start("with-private")
    assert box.sh("cat /mapped").output == "root only"
    assert "Permission denied" in box.sh(f"cat {shared}/private").output
    assert "Read-only file system" in box.sh(f"echo x > {shared}/new").output


def _enterable(directory: Path) -> Path:
    """Let everybody into a temporary directory."""
    for entered in (directory, *directory.parents):
        if entered.stat().st_uid == os.getuid() and entered not in (Path("/tmp"), Path("/")):
            entered.chmod(entered.stat().st_mode | 0o011)
    directory.chmod(0o755)
    return directory


def _add_image_that_shows(home: Home, name: str, directory: Path) -> None:
    """Make an image that shows a directory of the host, and has a file only its root may read."""
    host = home.run(home.runtime.images.resolve("host"))

    def fill(root: Path) -> Image:
        shutil.copytree(host.rootfs, root, symlinks=True)
        (root / "mapped").write_text("root only")
        (root / "mapped").chmod(0o600)
        return replace(host, rootfs=root, host_paths=[*host.host_paths, str(directory)])

    home.runtime.images.add(name, fill)


def test_the_hosts_programs_cannot_be_changed(home: Home, tmp_path: Path) -> None:
    shared = _enterable(tmp_path) / "programs"
    shared.mkdir()
    shared.chmod(0o777)
    _add_image_that_shows(home, "with-programs", shared)
    box = home.start("with-programs")
    assert "Read-only file system" in box.sh(f"touch {shared}/new").output
    record = json.loads((home.data_dir / "sandboxes" / box.id / "state.json").read_text())
    remount = ["nsenter", f"--mount=/proc/{record['pid']}/ns/mnt", "mount", "-o", "remount,bind,rw"]
    subprocess.run([*remount, shared], check=True)
    assert box.sh(f"touch {shared}/new && echo changed").output == "changed"
    box = home.start()
    assert "Read-only file system" in box.sh("touch /usr/bin/new").output
    assert box.sh("echo x >> /opt/opensandbox/execd").status != 0


def test_device_nodes_cannot_be_made(home: Home, tmp_path: Path) -> None:
    subprocess.run(["mknod", tmp_path / "null", "c", "1", "3"], check=True)  # outside it works
    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)
    attack = "mknod /tmp/null c 1 3"
    for without in (("seccomp", "capabilities", "paths"), ()):
        assert "Operation not permitted" in home.start(without=without).sh(attack).output


def test_a_device_node_that_got_in_all_the_same_cannot_be_opened(home: Home) -> None:
    """The null device of another number: kernel messages, opened and not read."""
    box = home.start()
    opening = "import os; os.open('/device', os.O_WRONLY); print('opened')"
    node = home.data_dir / "sandboxes" / box.id / "upper" / "device"
    os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 11))
    node.chmod(0o666)
    assert "PermissionError" in box.python(opening).output
    allow = next(Path("/sys/fs/cgroup").glob(f"devices/**/{box.id}/devices.allow"), None)
    if allow is None:
        pytest.skip("only cgroup v1 lets a test switch this protection off")
    allow.write_text("c 1:11 w")
    assert box.python(opening).output == "opened"


def test_device_nodes_of_the_host_keep_their_owner(home: Home, tmp_path: Path) -> None:
    """What crun gets as standard input it gives to the sandbox."""
    node = tmp_path / "null"
    os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    _run_by_hand(tmp_path, node)
    assert node.stat().st_uid == 70000  # it would be the host's own
    box = home.start()
    listing = "for name in /dev/*; do [ -c $name ] && [ ! -L $name ] && echo $name; done"
    names = box.sh(listing).output.split()
    assert "/dev/null" in names
    assert box.sh("mkfifo /tmp/own && chmod 666 /tmp/own && echo changed").output == "changed"
    for name in names:
        assert "Operation not permitted" in box.sh(f"chmod 666 {name}").output
        assert box.sh(f"stat -c %U {name}").output == "nobody"


def _run_by_hand(directory: Path, standard_input: Path) -> None:
    """Run crun in a user namespace, with a file as its standard input."""
    crun = shutil.which("crun")
    if crun is None:
        pytest.skip("only crun does that")
    subprocess.run([crun, "spec"], cwd=directory, check=True)
    spec = json.loads((directory / "config.json").read_text())
    (directory / "rootfs").mkdir()
    mapping = [{"containerID": 0, "hostID": 70000, "size": 65536}]
    spec["process"] |= {"terminal": False, "args": ["/does/not/matter"]}
    spec["linux"] = {
        "namespaces": [{"type": kind} for kind in ("user", "pid", "mount")],
        "uidMappings": mapping,
        "gidMappings": mapping,
    }
    spec["mounts"] = []
    (directory / "config.json").write_text(json.dumps(spec))
    directory.chmod(0o755)
    words = [crun, f"--root={directory / 'state'}", "--cgroup-manager=disabled", "run", "by-hand"]
    with standard_input.open("rb") as file:
        subprocess.run(words, cwd=directory, stdin=file, capture_output=True, check=False)


def test_links_out_of_a_sandbox_are_not_followed_when_it_is_removed(
    home: Home, tmp_path: Path
) -> None:
    (tmp_path / "kept").write_text("kept")
    box = home.start()
    box.sh(f"ln -s {tmp_path} /workspace/link; ln -s {tmp_path}/kept /etc/hosts.new")
    box.sh("mv /etc/hosts.new /etc/hosts; mkdir -p /workspace/deep/er; chmod 0 /workspace/deep")
    upper = home.data_dir / "sandboxes" / box.id / "upper"
    assert (upper / "workspace/link/kept").read_text() == "kept"
    subprocess.run(["find", "-L", upper, "-name", "kept", "-delete"], check=True)
    assert not (tmp_path / "kept").exists()  # so it goes when the host follows them
    (tmp_path / "kept").write_text("kept")
    box.stop()
    assert not upper.exists()
    assert (tmp_path / "kept").read_text() == "kept"


def test_what_one_sandbox_writes_no_other_sees(home: Home) -> None:
    first, second = home.start(), home.start()
    assert first.sh("echo mine > /workspace/file && cat /workspace/file").output == "mine"
    assert second.sh("cat /workspace/file").status != 0


def test_processes_of_the_host_and_of_siblings_are_invisible(home: Home) -> None:
    sibling, box = home.start(), home.start()
    name = f"sleep-of-{sibling.id}"
    sibling.sh(f"ln -s /usr/bin/sleep /tmp/{name}; /tmp/{name} 1000 >/dev/null 2>&1 &")
    look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    assert name in sibling.sh(look).output
    on_the_host = subprocess.run(look, shell=True, capture_output=True, text=True, check=False)
    assert name in on_the_host.stdout
    assert name not in box.sh(look).output
    assert int(box.sh("ls /proc | grep -c '^[0-9]'").output) < 10
