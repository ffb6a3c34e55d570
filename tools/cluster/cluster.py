# SPDX-License-Identifier: Apache-2.0
"""Start, look at and stop a cluster."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.cluster import dns, policy
from tools.cluster.binary import Binary, build, kubernetes_version
from tools.cluster.cgroups import make_cgroup, remove_cgroup
from tools.cluster.component import ClusterError
from tools.cluster.control_plane import control_plane
from tools.cluster.images import load_image, write_busybox, write_pause
from tools.cluster.kubectl import Kubectl
from tools.cluster.layout import Identities, Layout, cgroup_of
from tools.cluster.network import (
    MOST_NODES,
    Network,
    choose_network,
    join_host,
    join_node,
    leave_host,
    route_pods,
)
from tools.cluster.node import RunningNode, end_nodes
from tools.cluster.progress import step
from tools.cluster.worker import CNI_PLACES, GVISOR_CLASS, worker

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "nft", "nsenter", "mount")
_PLUGINS = ("ptp", "host-local", "portmap", "loopback")


@dataclass
class Cluster:
    """A cluster that runs, or what is left of one."""

    layout: Layout
    nodes: list[RunningNode]

    @property
    def kubectl(self) -> Kubectl:
        """A kubectl of its administrator."""
        return Kubectl(self.layout.kubectl, self.layout.kubeconfig)

    @property
    def is_alive(self) -> bool:
        """Whether any of its nodes runs."""
        return any(node.is_alive for node in self.nodes)

    def dead(self) -> list[str]:
        """Return a line for each node and each program that ended by itself."""
        lines = []
        for node in self.nodes:
            if node.is_alive:
                lines += node.dead()
            else:
                log = node.node.logs / "supervisor.log"
                lines.append(f"{node.node.name} ended with all its programs; its log: {log}")
        return lines

    def find(self, name: str) -> RunningNode:
        """Return the first node that has the program; `node2/kubelet` names the node too."""
        place, _, program = name.rpartition("/")
        for node in self.nodes:
            if place in {"", node.node.name} and program in node.children():
                return node
        known = sorted({child for node in self.nodes for child in node.children()})
        raise ClusterError(f"there is no program {name}; there are {', '.join(known)}")

    def load_image(self, file: Path) -> None:
        """Load an image from a tar file into every node."""
        for node in self.nodes:
            load_image(file, node.pid)

    def save(self) -> None:
        """Write down what must be known to stop it."""
        state = {
            "block": self.layout.network.block,
            "binary": str(self.layout.binary.directory),
            "nodes": [
                {"number": node.node.number, "pid": node.pid, "born": node.born}
                for node in self.nodes
            ],
        }
        file = _state_file(self.layout.directory)
        file.with_suffix(".new").write_text(json.dumps(state, indent=1))
        file.with_suffix(".new").replace(file)


def find_cluster(directory: Path) -> Cluster | None:
    """Return the cluster that was started with these files, alive or not."""
    try:
        state = json.loads(_state_file(directory).read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ClusterError(
            f"{_state_file(directory)} is damaged ({error}); "
            "remove what is left with: make cluster-stop"
        ) from error
    layout = Layout(directory, Network(state["block"]), Binary(Path(state["binary"])))
    nodes = [
        RunningNode(layout.node(node["number"]), node["pid"], node["born"])
        for node in state["nodes"]
    ]
    return Cluster(layout, nodes)


def require_cluster(directory: Path) -> Cluster:
    """Return the cluster that runs; none is an error."""
    cluster = find_cluster(directory)
    if cluster is None or not cluster.is_alive:
        raise ClusterError("no cluster runs here; start one with: make cluster")
    return cluster


def start(directory: Path, nodes: int, block: int | None) -> Cluster:
    """Start a cluster from nothing, and return once its nodes are ready."""
    _check_host(nodes)
    with _only_one(directory):
        before = find_cluster(directory)
        if before is not None and before.is_alive:
            raise ClusterError(
                f"a cluster runs already (KUBECONFIG={before.layout.kubeconfig}); "
                "stop it first with: make cluster-stop"
            )
        binary = build()
        print(f"Kubernetes {kubernetes_version()}, {nodes} node{'s' * (nodes > 1)}", flush=True)
        _clear(directory)
        return _start(Layout(directory, choose_network(block), binary), nodes)


def stop(directory: Path) -> bool:
    """Stop the cluster and remove its files; say whether there was one."""
    if os.geteuid() != 0:
        raise ClusterError("only root can stop a cluster; call it with sudo")
    with _only_one(directory):
        found = _clear(directory)
    shutil.rmtree(directory)
    return found


def _check_host(nodes: int) -> None:
    if not 1 <= nodes <= MOST_NODES:
        raise ClusterError(f"NODES is {nodes}; choose 1 to {MOST_NODES}")
    if os.geteuid() != 0:
        raise ClusterError("only root can start a cluster (namespaces, mounts); call it with sudo")
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not any(all((place / name).exists() for name in _PLUGINS) for place in CNI_PLACES):
        missing.append("CNI plugins")
    if missing:
        raise ClusterError(f"not installed: {', '.join(missing)}; run scripts/setup cluster")


def _shut_down(directory: Path) -> bool:
    """End every process, take everything off the host but files; say whether there was any."""
    mark = cgroup_of(directory)
    ended = end_nodes(directory)
    leave_host(mark)
    remove_cgroup(mark)
    return ended > 0


def _clear(directory: Path) -> bool:
    """Remove what there is of an earlier cluster; say whether there was one."""
    was_there = _state_file(directory).exists()
    was_there |= _shut_down(directory)
    for path in directory.iterdir():
        if path.name == _LOCK:
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return was_there


def _start(layout: Layout, nodes: int) -> Cluster:
    cluster = Cluster(layout, [])
    try:
        with step("namespaces, links and certificates"):
            identities = Identities(layout)
            identities.kubeconfig("admin", ("system:masters",), layout.kubeconfig)
            layout.kubectl.symlink_to(layout.binary.kube)
            for number in range(1, nodes + 1):
                _launch(cluster, number)
        _start_programs(cluster, identities)
    except BaseException:
        _shut_down(layout.directory)  # its files stay: an error names a log among them
        raise
    return cluster


def _launch(cluster: Cluster, number: int) -> None:
    layout = cluster.layout
    node = layout.node(number)
    make_cgroup(node.cgroup)
    running = RunningNode.launch(node)
    cluster.nodes.append(running)
    cluster.save()
    if number == 1:
        join_host(layout.network, running.pid, layout.cgroup)
    else:
        join_node(layout.network, number, running.pid, cluster.nodes[0].pid)
    numbers = [other.node.number for other in cluster.nodes]
    for other in cluster.nodes:
        route_pods(layout.network, numbers, other.node.number, other.pid)


def _start_programs(cluster: Cluster, identities: Identities) -> None:
    layout, first = cluster.layout, cluster.nodes[0]
    workers = [(node, worker(layout, identities, node.node)) for node in cluster.nodes]
    for node, (containerd, *_) in workers:
        node.start(containerd)
    for component in control_plane(layout, identities):
        with step(component.name):
            first.start(component)
            first.wait_until_ready(component)
    with step("containerd, and the images pause and busybox"):
        for node, (containerd, *_) in workers:
            node.wait_until_ready(containerd)
        _load_first_images(cluster)
    for node, (_, *programs) in workers:
        with step(f"kubelet and kube-proxy of {node.node.name}"):
            for component in programs:
                node.start(component)
            for component in programs:
                node.wait_until_ready(component)
    _start_additions(cluster, identities)


def _start_additions(cluster: Cluster, identities: Identities) -> None:
    """What every cluster has that is no part of Kubernetes itself: names, policies, gVisor."""
    layout = cluster.layout
    cluster.kubectl.apply(
        *policy.manifests(), *dns.manifests(layout.network, layout.binary.directory), GVISOR_CLASS
    )
    with step("network policies"):
        for node in cluster.nodes:
            enforcer = policy.policy_component(layout, identities, node.node)
            node.start(enforcer)
            node.wait_until_ready(enforcer)
    with step("name server"):
        inside = cluster.kubectl.within("kube-system")
        inside("rollout", "status", "deployment/coredns", "--timeout=80s")


def _load_first_images(cluster: Cluster) -> None:
    images = cluster.layout.directory / "images"
    images.mkdir()
    write_pause(images / "pause.tar", cluster.layout.binary.pause)
    write_busybox(images / "busybox.tar")
    for file in sorted(images.iterdir()):
        cluster.load_image(file)


_LOCK = ".lock"


@contextmanager
def _only_one(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / _LOCK).exists() and any(directory.iterdir()):
        raise ClusterError(
            f"{directory} has other files, which a cluster would remove; "
            "choose a directory that is empty or not there"
        )
    with (directory / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(
                f"another start or stop is at work in {directory}; wait for it"
            ) from None
        yield


def _state_file(directory: Path) -> Path:
    return directory / "state.json"
