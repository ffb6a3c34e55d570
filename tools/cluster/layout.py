# SPDX-License-Identifier: Apache-2.0
"""Where a cluster keeps its files, and what its nodes are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.binary import Binary
from tools.cluster.certificates import Authority, Pair, signing_pair
from tools.cluster.network import Network

API_PORT = 6443


@dataclass(frozen=True)
class Node:
    """One node: a set of namespaces with a kubelet in it."""

    number: int
    address: str
    pod_range: str
    directory: Path
    cgroup: str

    @property
    def name(self) -> str:
        """Its name in the cluster."""
        return f"node{self.number}"

    @property
    def logs(self) -> Path:
        """Where each of its programs has a log."""
        return self.directory / "logs"


@dataclass(frozen=True)
class Layout:
    """The files of one cluster."""

    directory: Path
    network: Network
    binary: Binary

    @property
    def server(self) -> str:
        """The address of the API server, the same for the host, the nodes and their programs."""
        return f"https://{self.network.node(1)}:{API_PORT}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.directory / "kubeconfig"

    @property
    def kubectl(self) -> Path:
        """A link to the program."""
        return self.directory / "kubectl"

    @property
    def cgroup(self) -> str:
        """The name of its cgroup."""
        return cgroup_of(self.directory)

    def node(self, number: int) -> Node:
        """Return one of its nodes."""
        return Node(
            number=number,
            address=self.network.node(number),
            pod_range=self.network.pods_of(number),
            directory=self.directory / f"node{number}",
            cgroup=f"{self.cgroup}/node{number}",
        )


def cgroup_of(directory: Path) -> str:
    """Return the name of a cluster's cgroup: one for each directory."""
    return f"opensandbox-cluster-{hashlib.sha256(bytes(directory)).hexdigest()[:8]}"


class Identities:
    """Everybody's certificate. Made again for each cluster."""

    def __init__(self, layout: Layout) -> None:
        """Make the authorities and what the control plane shows."""
        self._layout = layout
        self._directory = layout.directory / "certificates"
        self._directory.mkdir()
        self.cluster = Authority(self._directory, "cluster-ca")
        self.store = Authority(self._directory, "etcd-ca")
        self.front = Authority(self._directory, "front-proxy-ca")
        self.tokens = signing_pair(self._directory, "service-accounts")
        first = layout.network.node(1)
        service = "kubernetes.default.svc"
        self.apiserver = self.cluster.issue(
            "apiserver",
            "kube-apiserver",
            hosts=(
                *("kubernetes", "kubernetes.default", service, f"{service}.cluster.local"),
                *("localhost", "127.0.0.1", first, layout.network.api),
            ),
        )
        self.etcd = self.store.issue("etcd", "etcd", hosts=("localhost", "127.0.0.1"))
        self.etcd_client = self.store.issue("etcd-client", "kube-apiserver")
        self.front_client = self.front.issue("front-proxy", "front-proxy")
        self.kubelet_client = self.cluster.issue(
            "kubelet-client", "kube-apiserver-kubelet-client", ("system:masters",)
        )

    def kubelet(self, node: Node) -> Pair:
        """Return what a kubelet shows to those who call it."""
        return self.cluster.issue(
            f"kubelet-{node.name}", f"system:node:{node.name}", hosts=(node.name, node.address)
        )

    def kubeconfig(self, user: str, groups: tuple[str, ...] = (), file: Path | None = None) -> Path:
        """Write a kubeconfig for a user with a certificate of their own."""
        name = user.replace(":", "-")
        pair = self.cluster.issue(f"user-{name}", user, groups)
        file = file or self._directory / f"{name}.kubeconfig"
        return self.cluster.kubeconfig(file, self._layout.server, pair)
