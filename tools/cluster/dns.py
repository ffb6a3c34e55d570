# SPDX-License-Identifier: Apache-2.0
"""The cluster's DNS: CoreDNS in a pod, behind the Service `kube-dns`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.cluster.images import BUSYBOX
from tools.cluster.network import Network

DOMAIN = "cluster.local"
_NAMESPACE = "kube-system"
_NAME = "coredns"
_LABELS = {"k8s-app": "kube-dns"}
_PROGRAMS = "/programs"
_COREFILE = f"""\
{DOMAIN} in-addr.arpa ip6.arpa {{
    errors
    health
    ready
    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{
        pods insecure
        ttl 5
    }}
    cache 5
}}
# Names outside the cluster do not exist: nothing is asked beyond this host.
. {{
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def manifests(network: Network, programs: Path) -> list[dict[str, Any]]:
    """Return the objects that make the DNS; `programs` has `coredns` on every node."""
    return [*_access(), _config(), _deployment(programs), _service(network)]


def _metadata(**more: object) -> dict[str, object]:
    return {"name": _NAME, "namespace": _NAMESPACE, "labels": _LABELS, **more}


def _access() -> list[dict[str, Any]]:
    watched = {"": ["endpoints", "namespaces", "pods", "services"]}
    watched["discovery.k8s.io"] = ["endpointslices"]
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": ["list", "watch"]}
        for group, resources in watched.items()
    ]
    name, group = f"system:{_NAME}", "rbac.authorization.k8s.io"
    role = {"kind": "ClusterRole", "name": name, "apiGroup": group}
    subject = {"kind": "ServiceAccount", "name": _NAME, "namespace": _NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata()},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": role,
            "subjects": [subject],
        },
    ]


def _config() -> dict[str, Any]:
    data = {"Corefile": _COREFILE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(), "data": data}


def _deployment(programs: Path) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": _pod(programs)},
        },
    }


def _pod(programs: Path) -> dict[str, Any]:
    volumes = [
        {"name": "programs", "hostPath": {"path": str(programs), "type": "Directory"}},
        {"name": "config", "configMap": {"name": _NAME}},
    ]
    return {
        "serviceAccountName": _NAME,
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 1,
        "containers": [_container()],
        "volumes": volumes,
    }


def _container() -> dict[str, Any]:
    dns = [{"containerPort": 53, "protocol": p, "name": f"dns-{p.lower()}"} for p in _PROTOCOLS]
    return {
        "name": _NAME,
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": [f"{_PROGRAMS}/coredns", "-conf", "/etc/coredns/Corefile"],
        "ports": dns,
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}, "initialDelaySeconds": 30},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "programs", "mountPath": _PROGRAMS, "readOnly": True},
            {"name": "config", "mountPath": "/etc/coredns", "readOnly": True},
        ],
    }


_PROTOCOLS = ("UDP", "TCP")


def _service(network: Network) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(name="kube-dns"),
        "spec": {
            "clusterIP": network.dns,
            "selector": _LABELS,
            "ports": [{"name": f"dns-{p.lower()}", "port": 53, "protocol": p} for p in _PROTOCOLS],
        },
    }
