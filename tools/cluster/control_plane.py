# SPDX-License-Identifier: Apache-2.0
"""The programs that run once in a cluster, on its first node, as they are started."""

from __future__ import annotations

from collections.abc import Mapping

from tools.cluster.component import Component
from tools.cluster.layout import API_PORT, Identities, Layout

_ETCD_URL = "https://127.0.0.1:2379"
_ETCD_PEER_URL = "https://127.0.0.1:2380"
_UNHURRIED: Mapping[str, object] = {"kube-api-qps": 500, "kube-api-burst": 1000}
"""Calls per second; the default of 20 is what a load test would measure."""


def control_plane(layout: Layout, identities: Identities) -> list[Component]:
    """Return them in the order in which they are started."""
    return [
        _etcd(layout, identities),
        _apiserver(layout, identities),
        _controller_manager(layout, identities),
        _scheduler(layout, identities),
    ]


def _etcd(layout: Layout, identities: Identities) -> Component:
    metrics = f"http://{layout.network.node(1)}:2381"
    options = {
        "name": "node1",
        "data-dir": layout.directory / "etcd",
        "listen-client-urls": _ETCD_URL,
        "advertise-client-urls": _ETCD_URL,
        "listen-peer-urls": _ETCD_PEER_URL,
        "initial-advertise-peer-urls": _ETCD_PEER_URL,
        "initial-cluster": f"node1={_ETCD_PEER_URL}",
        "listen-metrics-urls": metrics,
        "cert-file": identities.etcd.certificate,
        "key-file": identities.etcd.key,
        "trusted-ca-file": identities.store.pair.certificate,
        "client-cert-auth": "true",
        "peer-cert-file": identities.etcd.certificate,
        "peer-key-file": identities.etcd.key,
        "peer-trusted-ca-file": identities.store.pair.certificate,
        "peer-client-cert-auth": "true",
        # The cluster is as short-lived as the machine's memory; waiting for the disk is for others.
        "unsafe-no-fsync": "true",
    }
    return _component(layout, "etcd", "etcd", options, f"{metrics}/readyz")


def _apiserver(layout: Layout, identities: Identities) -> Component:
    address = layout.network.node(1)
    options = {
        "advertise-address": address,
        "bind-address": "0.0.0.0",
        "secure-port": API_PORT,
        "etcd-servers": _ETCD_URL,
        "etcd-cafile": identities.store.pair.certificate,
        "etcd-certfile": identities.etcd_client.certificate,
        "etcd-keyfile": identities.etcd_client.key,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "client-ca-file": identities.cluster.pair.certificate,
        "tls-cert-file": identities.apiserver.certificate,
        "tls-private-key-file": identities.apiserver.key,
        "kubelet-certificate-authority": identities.cluster.pair.certificate,
        "kubelet-client-certificate": identities.kubelet_client.certificate,
        "kubelet-client-key": identities.kubelet_client.key,
        "kubelet-preferred-address-types": "InternalIP",
        "service-cluster-ip-range": layout.network.services,
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": identities.tokens.certificate,
        "service-account-signing-key-file": identities.tokens.key,
        "requestheader-client-ca-file": identities.front.pair.certificate,
        "requestheader-allowed-names": "front-proxy",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": identities.front_client.certificate,
        "proxy-client-key-file": identities.front_client.key,
    }
    return _component(
        layout, "kube-apiserver", "apiserver", options, f"https://{address}:{API_PORT}/readyz"
    )


def _controller_manager(layout: Layout, identities: Identities) -> Component:
    address = layout.network.node(1)
    options = {
        **_client(identities, "system:kube-controller-manager"),
        "bind-address": address,
        # Each node knows its range of pods already, and fake nodes need none.
        "allocate-node-cidrs": "false",
        "cluster-signing-cert-file": identities.cluster.pair.certificate,
        "cluster-signing-key-file": identities.cluster.pair.key,
        "flex-volume-plugin-dir": layout.directory / "volume-plugins",
        "root-ca-file": identities.cluster.pair.certificate,
        "service-account-private-key-file": identities.tokens.key,
        "use-service-account-credentials": "true",
        **_UNHURRIED,
        "leader-elect": "false",
    }
    return _component(
        layout,
        "kube-controller-manager",
        "controller-manager",
        options,
        f"https://{address}:10257/healthz",
    )


def _scheduler(layout: Layout, identities: Identities) -> Component:
    address = layout.network.node(1)
    options = {
        **_client(identities, "system:kube-scheduler"),
        "bind-address": address,
        "leader-elect": "false",
        **_UNHURRIED,
    }
    return _component(
        layout, "kube-scheduler", "scheduler", options, f"https://{address}:10259/healthz"
    )


def _client(identities: Identities, user: str) -> dict[str, object]:
    config = identities.kubeconfig(user)
    names = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return dict.fromkeys(names, config)


def _component(
    layout: Layout, name: str, command: str, options: Mapping[str, object], ready: str
) -> Component:
    flags = [f"--{option}={value}" for option, value in options.items()]
    return Component(name, (str(layout.binary.kube), command, *flags), ready)
