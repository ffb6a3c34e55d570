# SPDX-License-Identifier: Apache-2.0
"""A cluster from nothing to nothing, for real. Run by `make cluster-test`; needs root."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.traces import Marks, marks_of, remains, settings
from tests.harness.wait import eventually
from tools.cluster import binary
from tools.cluster.checks import CHECKS
from tools.cluster.cluster import Cluster, require_cluster
from tools.cluster.component import ClusterError

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 400
BUILD_SECONDS = 3600

pytestmark = pytest.mark.timeout(START_SECONDS * 3)


@dataclass
class Command:
    """`python -m tools.cluster` for a directory."""

    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, wrap: tuple[str, ...] = ()) -> tuple[int, str, str]:
        """Return exit status, output and errors."""
        words = [*wrap, sys.executable, "-m", "tools.cluster", f"--directory={self.directory}"]
        done = subprocess.run(
            [*words, *arguments],
            cwd=ROOT,
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    @property
    def cluster(self) -> Cluster:
        """The cluster that runs."""
        return require_cluster(self.directory)


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Build before anything is measured against a time limit of its own."""
    words = [sys.executable, "-c", "from tools.cluster import binary; binary.build()"]
    subprocess.run(words, cwd=ROOT, timeout=BUILD_SECONDS, check=True)


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    """Return the host's settings before the first cluster."""
    return settings()


@pytest.fixture
def new_command(tmp_path: Path) -> Iterator[Callable[[], Command]]:
    """Make commands for directories of their own, whose clusters are stopped in the end."""
    made: list[Command] = []

    def make() -> Command:
        made.append(Command(tmp_path / f"cluster{len(made)}"))
        return made[-1]

    yield make
    for command in made:
        assert command("stop")[0] == 0


def test_the_programs_pass_go_vet() -> None:
    words = ["go", "vet", "-trimpath", f"-tags={binary.TAGS}", "./..."]
    for source in (binary.SOURCE, binary.DNS_SOURCE):
        subprocess.run(words, cwd=source, env=binary.environment(), check=True)


def test_the_tests_of_the_programs_pass() -> None:
    words = ["go", "test", "-trimpath", f"-tags={binary.TAGS}", "./..."]
    subprocess.run(words, cwd=binary.SOURCE, env=binary.environment(), check=True)


def test_a_cluster_of_two_nodes_lives_is_hurt_and_leaves_nothing(
    before: dict[str, str], new_command: Callable[[], Command]
) -> None:
    command = new_command()
    status, output, errors = command("start", "--nodes=2")
    print(output)
    assert (status, errors) == (0, "")
    for what in ("etcd", "kube-apiserver", "kubelet and kube-proxy of node2", *CHECKS):
        assert re.search(rf"{re.escape(what)} +\d+\.\d s", output), what
    assert f"export KUBECONFIG={command.directory}/kubeconfig" in output

    _has_no_way_out(command)
    _refuses_a_second_start(command, new_command())
    _goes_on_after_a_restart(command)
    _tells_of_a_program_that_was_killed(command)
    _refuses_what_is_no_image(command)

    marks = marks_of(command.cluster)
    assert len(marks.namespaces) > len(CHECKS)
    assert set(remains(marks)) >= {"processes", "links", "routes", "cgroups", "files"}
    assert command("stop") == (0, "The cluster is stopped.\n", "")
    assert remains(marks) == {}
    assert settings() == before
    assert command("stop") == (0, "No cluster is there to stop.\n", "")


def _has_no_way_out(command: Command) -> None:
    for node in command.cluster.nodes:
        enter = ["nsenter", f"--net=/proc/{node.pid}/ns/net"]
        tried = subprocess.run(
            [*enter, "ip", "route", "get", "198.51.100.1"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Network is unreachable" in tried.stderr


def _refuses_a_second_start(command: Command, other: Command) -> None:
    status, _, errors = command("start")
    assert status == 1
    assert errors.startswith("cluster: a cluster runs already")
    assert errors.count("\n") == 1
    block = command.cluster.layout.network.block
    status, _, errors = other("start", f"--block={block}")
    assert status == 1
    assert errors.startswith(f"cluster: 10.{block}.0.0/16 is in use on this host")
    assert errors.count("\n") == 1


def _goes_on_after_a_restart(command: Command) -> None:
    kubectl = command.cluster.kubectl
    known = kubectl("get", "nodes", "--output=name")
    for name in ("etcd", "kube-apiserver", "node2/kubelet", "containerd"):
        assert command("restart", name)[0] == 0, name
    status, output, errors = command("check")
    assert (status, errors) == (0, ""), output
    assert kubectl("get", "nodes", "--output=name") == known
    assert command("restart", "nothing")[2].startswith("cluster: there is no program nothing;")


def _tells_of_a_program_that_was_killed(command: Command) -> None:
    assert command("status")[0] == 0
    node = command.cluster.nodes[0]
    node.signal("kube-scheduler", signal.SIGKILL)
    eventually(lambda: node.children()["kube-scheduler"]["ended"] is not None)
    status, output, errors = command("status")
    log = command.directory / "node1/logs/kube-scheduler.log"
    assert status == 1
    assert re.search(r"kube-scheduler +ended", output)
    assert errors == f"cluster: kube-scheduler of node1 ended (status -9); its log: {log}\n"
    assert log.stat().st_size > 0
    assert command("restart", "kube-scheduler")[0] == 0
    assert command("status")[0] == 0


def _refuses_what_is_no_image(command: Command) -> None:
    bad = command.directory / "bad.tar"
    bad.write_bytes(b"no tar at all")
    status, _, errors = command("load-image", str(bad))
    assert status == 1
    assert f"{bad} was not loaded: " in errors
    assert errors.count("\n") == 1


def test_what_a_killed_cluster_left_is_removed_by_the_next_start(
    before: dict[str, str], new_command: Callable[[], Command]
) -> None:
    command = new_command()
    assert command("start", "--no-check")[0] == 0
    first = command.cluster
    os.kill(first.nodes[0].pid, signal.SIGKILL)
    assert "node1 ended with all its programs" in command("status")[2]
    status, output, errors = command("start", "--no-check")
    assert (status, errors) == (0, ""), output
    second: Marks = marks_of(command.cluster)
    assert command.cluster.nodes[0].pid != first.nodes[0].pid
    assert command("stop")[0] == 0
    assert remains(second) == {}
    assert settings() == before


def test_a_cluster_whose_files_went_can_be_stopped(
    tmp_path: Path, new_command: Callable[[], Command]
) -> None:
    command = new_command()
    assert command("start", "--no-check")[0] == 0
    marks = marks_of(command.cluster)
    command.directory.rename(tmp_path / "elsewhere")
    assert command("stop") == (0, "The cluster is stopped.\n", "")
    assert remains(marks) == {}


def test_a_program_that_ends_at_the_start_is_named_with_its_log(
    tmp_path: Path, new_command: Callable[[], Command]
) -> None:
    command = new_command()
    command.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    broken = tmp_path / "cache/opensandbox" / binary.build().directory.name
    broken.mkdir(parents=True)
    for name in ("kube", "pause"):
        (broken / name).write_text("#!/bin/sh\necho no disk\nexit 3\n")
        (broken / name).chmod(0o755)
    status, _, errors = command("start")
    log = command.directory / "node1/logs/etcd.log"
    assert (status, errors) == (1, f"cluster: etcd of node1 ended (status 3); its log: {log}\n")
    assert log.read_text() == "no disk\n"
    state = json.loads((command.directory / "state.json").read_text())
    assert not Path(f"/sys/class/net/osc{state['block']}").exists()
    with pytest.raises(ClusterError, match="no cluster runs here"):
        _ = command.cluster


def test_who_is_not_root_is_told(new_command: Callable[[], Command]) -> None:
    command = new_command()
    for verb in ("start", "stop"):
        status, output, errors = command(verb, wrap=("unshare", "--user"))
        assert (status, output) == (1, "")
        assert errors.startswith(f"cluster: only root can {verb} a cluster")
        assert errors.count("\n") == 1


@pytest.mark.parametrize("nodes", [0, 101])
def test_a_number_of_nodes_that_cannot_be_is_refused(
    new_command: Callable[[], Command], nodes: int
) -> None:
    status, _, errors = new_command()("start", f"--nodes={nodes}")
    assert (status, errors) == (1, f"cluster: NODES is {nodes}; choose 1 to 100\n")
