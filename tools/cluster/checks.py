# SPDX-License-Identifier: Apache-2.0
"""Is the cluster really usable? Each check does what a user would do, and raises when it fails."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.cluster.cluster import Cluster
from tools.cluster.component import ClusterError
from tools.cluster.images import BUSYBOX, write_busybox
from tools.cluster.kubectl import Kubectl, environment
from tools.cluster.progress import step
from tools.cluster.worker import has_gvisor

NAMESPACE = "cluster-check"
_WATCH = "--request-timeout=20s"
"""Ends a watch that sees nothing."""
_SETTLE_SECONDS = 30.0
"""Bounds how long a rule may take to reach the nodes."""

_GET = "timeout 2 wget -qO-"

Check = Callable[[Cluster, Kubectl], None]


def run_checks(cluster: Cluster) -> None:
    """Run every check, in a namespace that is removed afterwards."""
    kubectl = cluster.kubectl
    # What an earlier run made may still be on its way out.
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=80s")
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    inside = kubectl.within(NAMESPACE)
    try:
        for what, check in CHECKS.items():
            with step(f"check: {what}"):
                _run_one(cluster, inside, check)
    finally:
        kubectl("delete", "namespace", NAMESPACE, "--wait=false")
        kubectl("delete", "crd", "widgets.check.opensandbox.io", "--ignore-not-found")


def _run_one(cluster: Cluster, kubectl: Kubectl, check: Check) -> None:
    try:
        check(cluster, kubectl)
    except ClusterError as error:
        dead = cluster.dead()
        if dead:
            raise ClusterError(dead[0]) from error
        raise


def pod(name: str, command: str, image: str = BUSYBOX, **spec: object) -> dict[str, Any]:
    """Return a pod with a label of its own name."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", command],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def _nodes_are_ready(cluster: Cluster, kubectl: Kubectl) -> None:
    names = [f"node/{node.node.name}" for node in cluster.nodes]
    kubectl.wait("condition=Ready", *names)
    # Pods need it, and a controller makes it a moment after the namespace.
    kubectl.wait("create", "serviceaccount/default")


def _pods_run(_: Cluster, kubectl: Kubectl) -> None:
    serve = "mkdir /www && echo hello > /www/index.html && echo serving && exec httpd -f -h /www"
    web, client = pod("web", serve), pod("client", "sleep 100000")
    web["spec"]["containers"][0]["readinessProbe"] = {
        "httpGet": {"path": "/", "port": 80},
        "periodSeconds": 1,
    }
    kubectl.apply(web, client, _service("web"))
    kubectl.wait("condition=Ready", "pod/web", "pod/client")


def _service_routes(_: Cluster, kubectl: Kubectl) -> None:
    address = kubectl("get", "service", "web", "--output=jsonpath={.spec.clusterIP}")
    _eventually(kubectl, "client", f"{_GET} http://{address}", "hello")


def _names_resolve(_: Cluster, kubectl: Kubectl) -> None:
    _eventually(kubectl, "client", f"{_GET} http://web", "hello")
    whole = f"http://web.{NAMESPACE}.svc.cluster.local"
    _eventually(kubectl, "client", f"{_GET} {whole}", "hello")


def _exec_and_logs_work(_: Cluster, kubectl: Kubectl) -> None:
    _expect(kubectl("exec", "client", "--", "cat", "/etc/hostname"), "client\n")
    given = kubectl("exec", "--stdin", "client", "--", "cat", given="through stdin\n")
    _expect(given, "through stdin\n")
    _expect(kubectl("logs", "web"), "serving\n")


def _accounts_have_no_rights_at_first(cluster: Cluster, kubectl: Kubectl) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        stranger = Path(scratch) / "kubeconfig"
        known = json.loads(cluster.layout.kubeconfig.read_text())
        known["users"][0]["user"] = {"token": kubectl("create", "token", "default").strip()}
        stranger.write_text(json.dumps(known))
        account = Kubectl(kubectl.program, stranger, kubectl.always)
        refused = account.attempt("get", "pods")
        if "Forbidden" not in refused.stderr:
            raise ClusterError(f"an account without rights was not refused: {refused.stderr}")
        kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
        granted = f"--serviceaccount={NAMESPACE}:default"
        kubectl("create", "rolebinding", "reader", "--role=reader", granted)
        _until(lambda: account.attempt("get", "pods").returncode == 0, "a role gives no rights")


def _resources_can_be_defined_and_watched(_: Cluster, kubectl: Kubectl) -> None:
    kubectl.apply(_WIDGETS)
    kubectl.wait("condition=Established", "crd/widgets.check.opensandbox.io")
    widget = {"apiVersion": "check.opensandbox.io/v1", "kind": "Widget"}
    kubectl.apply({**widget, "metadata": {"name": "one"}, "spec": {"size": 1}})
    command = kubectl.command("get", "widgets", "--watch", "--output=name", _WATCH)
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout
        try:
            _expect(watching.stdout.readline(), "widget.check.opensandbox.io/one\n")  # of the list
            kubectl.apply({**widget, "metadata": {"name": "two"}, "spec": {"size": 2}})
            _expect(watching.stdout.readline(), "widget.check.opensandbox.io/two\n")  # an event
        finally:
            watching.terminate()
    wrong = {**widget, "metadata": {"name": "three"}, "spec": {"size": "big"}}
    refused = kubectl.attempt("create", "--filename=-", given=json.dumps(wrong))
    if "must be of type integer" not in refused.stderr:
        raise ClusterError(f"a widget against its schema was not refused: {refused.stderr}")


def _policies_are_enforced(_: Cluster, kubectl: Kubectl) -> None:
    address = kubectl("get", "pod", "web", "--output=jsonpath={.status.podIP}")
    ask = f"{_GET} http://{address}"
    policy: dict[str, Any] = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "web"},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]},
    }
    kubectl.apply(policy)
    _until(
        lambda: kubectl.attempt("exec", "client", "--", "sh", "-c", ask).returncode != 0,
        "a policy that forbids everything lets a pod through",
    )
    friends = [{"podSelector": {"matchLabels": {"app": "client"}}}]
    policy["spec"]["ingress"] = [{"from": friends}]
    kubectl.apply(policy)
    _eventually(kubectl, "client", ask, "hello")
    kubectl("delete", "networkpolicy", "web")


def _image_from_a_file(cluster: Cluster, kubectl: Kubectl) -> None:
    name = "localhost/loaded:check"
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "image.tar"
        write_busybox(file, name, said=b"from a file\n")
        cluster.load_image(file)
    kubectl.apply(pod("loaded", "cat /said", name, restartPolicy="Never"))
    kubectl.wait("jsonpath={.status.phase}=Succeeded", "pod/loaded")
    _expect(kubectl("logs", "loaded"), "from a file\n")


def _gvisor_runs_pods(cluster: Cluster, kubectl: Kubectl) -> None:
    kubectl("get", "runtimeclass", "gvisor")
    if not has_gvisor():
        return
    kubectl.apply(pod("gvisor", "dmesg", runtimeClassName="gvisor", restartPolicy="Never"))
    try:
        kubectl.wait("jsonpath={.status.phase}=Succeeded", "pod/gvisor")
    except ClusterError:
        log = cluster.nodes[0].node.logs / "containerd.log"
        raise ClusterError(
            f"runsc is installed but runs no pod; its shim must fit containerd, see {log}"
        ) from None
    if "gVisor" not in kubectl("logs", "gvisor"):
        raise ClusterError("a pod with the RuntimeClass gvisor runs on the host's kernel")


def _pods_reach_each_other_across_nodes(cluster: Cluster, kubectl: Kubectl) -> None:
    address = kubectl("get", "pod", "web", "--output=jsonpath={.status.podIP}")
    for node in cluster.nodes:
        name = f"on-{node.node.name}"
        kubectl.apply(pod(name, "sleep 100000", nodeName=node.node.name))
        kubectl.wait("condition=Ready", f"pod/{name}")
        _eventually(kubectl, name, f"{_GET} http://{address}", "hello")
        _eventually(kubectl, name, f"{_GET} http://web", "hello")


CHECKS: Mapping[str, Check] = {
    "nodes are ready": _nodes_are_ready,
    "pods run": _pods_run,
    "a Service routes": _service_routes,
    "names resolve in pods": _names_resolve,
    "kubectl exec and logs": _exec_and_logs_work,
    "RBAC refuses and grants": _accounts_have_no_rights_at_first,
    "a resource is defined and watched": _resources_can_be_defined_and_watched,
    "a NetworkPolicy is enforced": _policies_are_enforced,
    "an image from a local tar file": _image_from_a_file,
    f"gVisor ({'runsc' if has_gvisor() else 'no runsc here: the class only'})": _gvisor_runs_pods,
    "every node reaches pods and Services": _pods_reach_each_other_across_nodes,
}

_WIDGETS: Mapping[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.check.opensandbox.io"},
    "spec": {
        "group": "check.opensandbox.io",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer"}},
                            }
                        },
                    }
                },
            }
        ],
    },
}


def _service(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    }


def _expect(seen: str, wanted: str) -> None:
    if seen != wanted:
        raise ClusterError(f"expected {wanted!r}, got {seen!r}")


def _eventually(kubectl: Kubectl, name: str, command: str, wanted: str) -> None:
    """Rules reach a node a moment after the object that asks for them."""

    def is_so() -> bool:
        return kubectl.attempt("exec", name, "--", "sh", "-c", command).stdout.strip() == wanted

    _until(is_so, f"`{command}` in pod {name} does not print {wanted!r}")


def _until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"{otherwise}, also after {_SETTLE_SECONDS:.0f} s")
        time.sleep(0.2)
