# SPDX-License-Identifier: Apache-2.0
"""The programs of every node: containerd, kubelet, kube-proxy, and their configuration."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.cluster.component import Component
from tools.cluster.images import PAUSE, SOCKET
from tools.cluster.layout import Identities, Layout, Node

CNI_PLACES = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
GVISOR = ("runsc", "containerd-shim-runsc-v1")
"""Programs a node needs for the RuntimeClass `gvisor`."""
GVISOR_CLASS: Mapping[str, Any] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "gvisor"},
    "handler": "runsc",
}
_OVERLAY = "overlay"
_CAP_SYS_RESOURCE = 24


def has_gvisor() -> bool:
    """Say whether pods can be run by gVisor here."""
    return all(shutil.which(program) for program in GVISOR)


def worker(layout: Layout, identities: Identities, node: Node) -> list[Component]:
    """Write the configuration of a node, and return its programs in the order of starting."""
    config = node.directory / "config"
    config.mkdir()
    (config / "cni").mkdir()
    _write(config / "cni/10-pods.conflist", _cni(node))
    (config / "containerd.toml").write_text(_containerd(node, config))
    serving = identities.kubelet(node)
    _write(
        config / "kubelet.json",
        _kubelet(layout, identities, node)
        | {
            "tlsCertFile": str(serving.certificate),
            "tlsPrivateKeyFile": str(serving.key),
        },
    )
    _write(config / "kube-proxy.json", _proxy(layout, identities, node))
    kubeconfig = identities.kubeconfig(f"system:node:{node.name}", ("system:nodes",))
    kube = str(layout.binary.kube)
    return [
        Component(
            "containerd",
            ("containerd", "--config", str(config / "containerd.toml")),
            f"unix:{SOCKET}",
        ),
        Component(
            "kubelet",
            (
                *(kube, "kubelet", f"--config={config / 'kubelet.json'}"),
                *(f"--kubeconfig={kubeconfig}", f"--hostname-override={node.name}"),
                f"--node-ip={node.address}",
            ),
            f"http://{node.address}:10248/healthz",
        ),
        Component(
            "kube-proxy",
            (kube, "proxy", f"--config={config / 'kube-proxy.json'}"),
            f"http://{node.address}:10256/healthz",
        ),
    ]


def _cni(node: Node) -> dict[str, object]:
    """Each pod has a link of its own to its node, which routes: rules see every packet."""
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/var/lib/cni/networks",
                    "ranges": [[{"subnet": node.pod_range}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _containerd(node: Node, config: Path) -> str:
    criv1 = 'plugins."io.containerd.grpc.v1.cri"'
    plugins = next((place for place in CNI_PLACES if place.is_dir()), CNI_PLACES[0])
    lines = [
        "version = 2",
        f"root = {_quoted(node.directory / 'containerd')}",
        'state = "/run/containerd"',
        '[plugins."io.containerd.internal.v1.opt"]',
        f"path = {_quoted(node.directory / 'opt')}",
        "[grpc]",
        f"address = {_quoted(SOCKET)}",
        f"[{criv1}]",
        f"sandbox_image = {_quoted(PAUSE)}",
        f"restrict_oom_score_adj = {json.dumps(not _may_lower_oom_scores())}",
        f"[{criv1}.cni]",
        f"bin_dir = {_quoted(plugins)}",
        f"conf_dir = {_quoted(config / 'cni')}",
        f"[{criv1}.containerd]",
        f"snapshotter = {_quoted(_snapshotter(node.directory))}",
        'default_runtime_name = "runc"',
        f"[{criv1}.containerd.runtimes.runc]",
        'runtime_type = "io.containerd.runc.v2"',
        f"[{criv1}.containerd.runtimes.runc.options]",
        "SystemdCgroup = false",
    ]
    if has_gvisor():
        lines += [
            f"[{criv1}.containerd.runtimes.runsc]",
            'runtime_type = "io.containerd.runsc.v1"',
        ]
    return "\n".join(lines) + "\n"


def _may_lower_oom_scores() -> bool:
    """Say whether pods can be protected from the kernel's choice when memory is short.

    Some virtual machines take the right to do so even from root; pods run there all the same.
    """
    status = Path("/proc/self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return bool(effective & 1 << _CAP_SYS_RESOURCE)


def _snapshotter(directory: Path) -> str:
    """Overlays cannot be stacked on an overlay: there, images are copied."""
    best = max(
        (line.split() for line in Path("/proc/self/mounts").read_text().splitlines()),
        key=lambda fields: len(fields[1]) if directory.is_relative_to(fields[1]) else 0,
    )
    return "native" if best[2] == _OVERLAY else "overlayfs"


def _kubelet(layout: Layout, identities: Identities, node: Node) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "healthzBindAddress": node.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(identities.cluster.pair.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [layout.network.dns],
        "clusterDomain": "cluster.local",
        "resolvConf": str(node.directory / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "failSwapOn": False,
        "failCgroupV1": False,
        # A full disk of a developer's machine must not evict pods.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "maxPods": 250,
        "serializeImagePulls": False,
        "volumePluginDir": str(node.directory / "volume-plugins"),
        "nodeStatusUpdateFrequency": "5s",
        "shutdownGracePeriod": "0s",
    }


def _proxy(layout: Layout, identities: Identities, node: Node) -> dict[str, object]:
    kubeconfig = identities.kubeconfig("system:kube-proxy")
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "bindAddress": node.address,
        "healthzBindAddress": f"{node.address}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "clusterCIDR": layout.network.pods,
        "hostnameOverride": node.name,
        # The size of the table of connections belongs to the host.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


def _write(file: Path, content: Mapping[str, object]) -> None:
    file.write_text(json.dumps(content, indent=1))


def _quoted(value: object) -> str:
    return json.dumps(os.fspath(value) if isinstance(value, Path) else value)
