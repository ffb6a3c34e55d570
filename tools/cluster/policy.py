# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies: one program on each node turns them into nftables rules (components/policy)."""

from __future__ import annotations

from typing import Any

from tools.cluster.component import Component
from tools.cluster.layout import Identities, Layout, Node

USER = "system:network-policy"
_PORT = 10290
_RBAC = "rbac.authorization.k8s.io"
_WATCHED = {"": ["namespaces", "pods"], "networking.k8s.io": ["networkpolicies"]}


def policy_component(layout: Layout, identities: Identities, node: Node) -> Component:
    """Return the program for a node. It is ready once the first rules are in place."""
    address = f"{node.address}:{_PORT}"
    arguments = {
        "kubeconfig": identities.kubeconfig(USER),
        "node": node.name,
        "pod-range": node.pod_range,
        "health": address,
    }
    flags = [f"--{name}={value}" for name, value in arguments.items()]
    return Component(
        "network-policy",
        (str(layout.binary.kube), "network-policy", *flags),
        f"http://{address}/healthz",
    )


def manifests() -> list[dict[str, Any]]:
    """Return the objects that let it read what it watches."""
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": ["list", "watch"]}
        for group, resources in _WATCHED.items()
    ]
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": USER},
            "rules": rules,
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": USER},
            "roleRef": {"kind": "ClusterRole", "name": USER, "apiGroup": _RBAC},
            "subjects": [{"kind": "User", "name": USER, "apiGroup": _RBAC}],
        },
    ]
