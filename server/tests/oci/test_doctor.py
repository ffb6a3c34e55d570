# SPDX-License-Identifier: Apache-2.0
"""`doctor` on this host, without some of what it needs, and for somebody who is not root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opensandbox_server.commands.doctor import report
from opensandbox_server.host.programs import find_program
from opensandbox_server.runtimes.oci.doctor import check_machine, judge_program
from opensandbox_server.runtimes.oci.launcher.program import Program
from tests.harness.runtime import missing
from tests.harness.wait import PATIENCE

WITHOUT_NET_ADMIN = ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
NOT_ROOT = ("unshare", "--user", "--map-user=1000", "--map-group=1000") if not os.geteuid() else ()
"""Files stay as readable as they are for us: where Python was installed nobody knows."""


def server(
    home: Path, *words: str, around: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command of the server, with no config file and an empty home directory."""
    command = [*around, sys.executable, "-m", "opensandbox_server", *words]
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    if programs := find_program("execd"):
        environ["OPENSANDBOX_BIN_DIR"] = str(programs.parent)
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def findings(report: str) -> dict[str, str]:
    """Return each line of a report by its name; a fix belongs to the line above it."""
    lines = report.replace("\n         fix: ", " fix: ").splitlines()
    return {line.partition(":")[0].split(maxsplit=1)[1]: line for line in lines}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can lose a capability")
def test_rules_and_connections_are_tried_and_nothing_is_changed(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")
    weak = findings(server(tmp_path, "doctor", around=WITHOUT_NET_ADMIN).stdout)
    assert weak["nftables"].startswith("missing")
    assert "CONFIG_NF_TABLES_BRIDGE" in weak["nftables"]
    assert weak["connections"].startswith("missing")
    assert "fix: sudo modprobe nf_conntrack_netlink" in weak["connections"]
    assert "root without NET_ADMIN" in weak["privilege"]
    before = tables()
    seen = findings(server(tmp_path, "doctor").stdout)
    assert seen["nftables"] == "ok       nftables: the kernel takes our rules"
    assert seen["connections"].startswith("ok")
    assert "osbtry" not in before + tables()
    assert list(tmp_path.iterdir()) == []


def tables() -> str:
    """List the tables of the packet filter."""
    listed = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
    return listed.stdout


def test_who_is_not_root_is_told_the_ways_there_are(tmp_path: Path) -> None:
    done = server(tmp_path, "doctor", around=NOT_ROOT)
    assert (done.returncode, done.stderr) == (1, "")
    privilege = findings(done.stdout)["privilege"]
    assert privilege.startswith("missing")
    for way in ("fix: sudo opensandbox-server", "opensandbox-server --runtime fake"):
        assert way in privilege
    fake = server(tmp_path, "--runtime", "fake", "doctor", around=NOT_ROOT)
    assert fake.returncode == 0, fake.stdout


def test_who_is_not_root_gets_one_clear_error_and_no_key(tmp_path: Path) -> None:
    done = server(tmp_path, "--port", "0", around=NOT_ROOT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "needs root; run: sudo opensandbox-server" in done.stderr
    assert not (tmp_path / ".opensandbox" / "api_key").exists()


def test_a_machine_that_has_few_processes_or_files_is_warned_of(tmp_path: Path) -> None:
    for name, value in {"kernel/pid_max": "32768", "fs/file-max": str(2**63 - 1)}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f"{value}\n")
    few = check_machine(tmp_path)
    assert few.is_ok
    assert few.fix == "sudo sysctl -w kernel.pid_max=4194304"
    assert report([few]).startswith("warning  machine: 32768 processes")
    (tmp_path / "kernel/pid_max").write_text("4194304\n")
    assert report([check_machine(tmp_path)]).startswith("ok       machine: ")


@pytest.mark.parametrize(
    ("name", "said", "state"),
    [
        ("crun", "crun version 1.8.1", "warning"),
        ("crun", "crun version 1.14.1", "ok"),
        ("crun", "crun version 1.21", "ok"),
        ("runc", "runc version 1.1.5+ds1", "warning"),
        ("runc", "runc version 1.3.3", "ok"),
    ],
)
def test_a_launcher_without_its_own_protections_is_warned_of(
    tmp_path: Path, name: str, said: str, state: str
) -> None:
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\necho {said}\n")
    program.chmod(0o755)
    found = judge_program(Program(name, str(program), tmp_path))
    assert found.is_ok
    assert ("install " + name in found.fix) == (state == "warning")
