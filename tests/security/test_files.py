# SPDX-License-Identifier: Apache-2.0
"""What a sandbox sees of the machine, and what it can write there."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.security.harness import Home

TTL = "/proc/sys/net/ipv4/ip_default_ttl"


def test_sysctls_are_read_only(home: Home) -> None:
    attack = f"echo 77 > {TTL} && cat {TTL}"
    assert home.start(without=("paths", "capabilities")).sh(attack).output == "77"
    strong = home.start(without=("capabilities",)).sh(attack)
    assert strong.status != 0
    assert "Read-only file system" in strong.output


@pytest.mark.parametrize(
    "path",
    [
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/drop_caches",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/class/net/eth0/mtu",
    ],
)
def test_the_kernel_cannot_be_written_to(home: Home, path: str) -> None:
    box = home.start()
    if not Path(path).exists() and "eth0" not in path:
        pytest.skip(f"this kernel has no {path}")
    assert box.sh(f"echo 0 > {path}").status != 0


@pytest.mark.parametrize("path", ["/proc/keys", "/proc/timer_list", "/proc/kcore"])
def test_files_that_tell_of_the_whole_machine_are_empty(home: Home, path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"this kernel has no {path}")
    assert home.start().sh(f"head -c 100 {path} | wc -c").output == "0"


def test_sysfs_shows_only_its_own_interfaces(home: Home) -> None:
    assert home.start().sh("ls /sys/class/net").output.split() == ["eth0", "lo"]


def test_nothing_of_the_host_but_its_programs_is_there(home: Home, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    box = home.start()
    assert box.sh(f"cat {secret}").status != 0
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
    seen = box.sh("cat /proc/1/mountinfo; ls -l /proc/1/fd; cat /proc/net/unix").output
    assert str(home.data_dir) not in seen


def test_files_of_the_hosts_root_stay_closed_where_ids_are_not_mapped(
    home: Home, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and parent != Path("/tmp") and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    (shared / "private").write_text("root only")
    (shared / "private").chmod(0o600)
    host = home.run(home.runtime.images.resolve("host"))

    def fill(root: Path) -> object:
        shutil.copytree(host.rootfs, root, symlinks=True)
        (root / "mapped").write_text("root only")
        (root / "mapped").chmod(0o600)
        return replace(host, rootfs=root, host_paths=[*host.host_paths, str(shared)])

    home.runtime.images.add("with-private", fill)  # type: ignore[arg-type]
    box = home.start("with-private")
    assert box.sh("cat /mapped").output == "root only"
    assert "Permission denied" in box.sh(f"cat {shared}/private").output
    assert "Read-only file system" in box.sh(f"echo x > {shared}/new").output


def test_the_hosts_programs_cannot_be_changed(home: Home) -> None:
    box = home.start()
    assert "Read-only file system" in box.sh("touch /usr/bin/new").output
    assert box.sh("echo x >> /opt/opensandbox/execd").status != 0


def test_device_nodes_cannot_be_made(home: Home) -> None:
    assert home.start().sh("mknod /tmp/disk b 254 0").status != 0
    assert home.start(without=("seccomp", "capabilities")).sh("mknod /tmp/disk b 254 0").status != 0


def test_what_one_sandbox_writes_no_other_sees(home: Home) -> None:
    first, second = home.start(), home.start()
    assert first.sh("echo mine > /workspace/file && cat /workspace/file").output == "mine"
    assert second.sh("cat /workspace/file").status != 0


def test_the_token_is_in_no_place_a_command_can_read(home: Home) -> None:
    seen = home.start().sh("cat /proc/1/environ /proc/1/cmdline; env; ls -l /proc/1/fd").output
    assert "the token of the tests" not in seen


def test_processes_of_the_host_and_of_siblings_are_invisible(home: Home) -> None:
    home.start()
    pids = home.start().sh("ls /proc | grep -c '^[0-9]'").output
    assert int(pids) < 10
