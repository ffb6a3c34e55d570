# SPDX-License-Identifier: Apache-2.0
"""What runs on a cluster of two nodes: names, policies, a load. Run by `make cluster-test`."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.wait import eventually
from tools.cluster import binary
from tools.cluster.checks import pod
from tools.cluster.cluster import Cluster, require_cluster
from tools.cluster.kubectl import Kubectl
from tools.cluster.load import MARK, NAMESPACE, memory
from tools.cluster.node import RunningNode

ROOT = Path(__file__).resolve().parents[2]
SHOP, LAB = "shop", "lab"
START_SECONDS = 600

pytestmark = pytest.mark.timeout(START_SECONDS * 2)


def _words(directory: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "tools.cluster", f"--directory={directory}", *arguments]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a cluster of two nodes, with pods in two namespaces."""
    binary.build()
    directory = tmp_path_factory.mktemp("cluster")
    start = _words(directory, "start", "--nodes=2", "--no-check")
    subprocess.run(start, cwd=ROOT, timeout=START_SECONDS, check=True)
    try:
        running = require_cluster(directory)
        _run_pods(running.kubectl)
        yield running
    finally:
        subprocess.run(_words(directory, "stop"), cwd=ROOT, timeout=START_SECONDS, check=True)


def _run_pods(kubectl: Kubectl) -> None:
    """Run web and near on the first node, far on the second, and a stranger elsewhere."""
    for name in (SHOP, LAB):
        labels = {"team": name}
        kubectl.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        )
        kubectl.within(name).wait("create", "serviceaccount/default")
    serve = "mkdir /www; echo hello > /www/index.html; httpd -p 80 -h /www; httpd -p 81 -h /www"
    web = pod("web", f"{serve}; sleep 100000", nodeName="node1", hostname="web", subdomain="each")
    web["spec"]["containers"][0] |= {
        "ports": [{"name": "http", "containerPort": 80}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1},
    }
    near = pod("near", "sleep 100000", nodeName="node1")
    far = pod("far", "sleep 100000", nodeName="node2")
    kubectl.within(SHOP).apply(web, near, far, _service("web"), _service("each", clusterIP="None"))
    kubectl.within(LAB).apply(pod("stranger", "sleep 100000", nodeName="node2"))
    kubectl.within(SHOP).wait("condition=Ready", "pod/web", "pod/near", "pod/far")
    kubectl.within(LAB).wait("condition=Ready", "pod/stranger")


def _service(name: str, **spec: object) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80}, {"name": "side", "port": 81}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": ports, **spec},
    }


@dataclass(frozen=True)
class Pods:
    """The pods of the fixture, and what they can do."""

    kubectl: Kubectl

    def run(self, name: str, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a pod."""
        inside = self.kubectl.within(LAB if name == "stranger" else SHOP)
        return inside.attempt("exec", name, "--", "/bin/sh", "-c", command)

    @property
    def address(self) -> str:
        """The web pod's."""
        return self.kubectl.within(SHOP)("get", "pod", "web", "--output=jsonpath={.status.podIP}")

    def expect(
        self, *, opened: Mapping[str, tuple[str, ...]], closed: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Wait until every pod reaches what is open to it, and nothing that is closed."""
        for is_open, ways in ((False, closed), (True, opened)):
            for name, urls in ways.items():
                for url in urls:
                    self._expect_one(name, url, is_open=is_open)

    def learn(self, name: str, asked: str, answer: str) -> None:
        """Wait until a pod gets an answer from the name server."""
        eventually(
            lambda: answer in self.run(name, f"nslookup {asked}").stdout,
            f"{name} learns that {asked} is {answer}",
        )

    def _expect_one(self, name: str, url: str, *, is_open: bool) -> None:
        ask = f"timeout 3 wget -qO- http://{url}"
        eventually(
            lambda: (self.run(name, ask).stdout == "hello\n") is is_open,
            f"{url} is {'open' if is_open else 'closed'} for {name}",
        )


@pytest.fixture
def pods(cluster: Cluster) -> Iterator[Pods]:
    """Return the pods; policies that a test made are gone afterwards."""
    pods = Pods(cluster.kubectl)
    yield pods
    for namespace in (SHOP, LAB):
        cluster.kubectl.within(namespace)("delete", "networkpolicies", "--all")


def _allow(kubectl: Kubectl, **spec: object) -> None:
    selected = {"podSelector": {"matchLabels": {"app": "web"}}}
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "policy"},
        "spec": {**selected, **spec},
    }
    kubectl.within(SHOP).apply(policy)


def test_the_rules_of_policies_hold_in_a_network_of_their_own() -> None:
    words = ["go", "test", "-count=1", "-trimpath", f"-tags={binary.TAGS}", "./policy"]
    subprocess.run(
        words, cwd=binary.SOURCE, env=binary.environment(), timeout=START_SECONDS, check=True
    )


def test_pods_find_services_pods_and_the_names_of_addresses(pods: Pods) -> None:
    service = pods.kubectl.within(SHOP)(
        "get", "service", "web", "--output=jsonpath={.spec.clusterIP}"
    )
    address, domain = pods.address, "cluster.local"
    dashed = address.replace(".", "-")
    answers = {
        "web.shop.svc.cluster.local": service,
        "each.shop.svc.cluster.local": address,
        "web.each.shop.svc.cluster.local": address,
        f"{dashed}.shop.pod.{domain}": address,
        address: f"web.each.shop.svc.{domain}",
        "kubernetes.default.svc.cluster.local": ".128.1",
    }
    for name in ("near", "far"):
        for asked, answer in answers.items():
            pods.learn(name, asked, answer)
        pods.expect(opened={name: ("web", "web.shop", "each.shop.svc", "web.each")}, closed={})
    pods.expect(opened={"stranger": ("web.shop",)}, closed={"stranger": ("web",)})


def test_names_outside_the_cluster_do_not_exist(pods: Pods) -> None:
    for asked in ("example.com", "nothing.shop.svc.cluster.local", "192.0.2.1"):
        found = pods.run("far", f"nslookup {asked}")
        assert "NXDOMAIN" in found.stdout + found.stderr, found


def test_names_resolve_again_after_the_name_server_was_deleted(pods: Pods) -> None:
    system = pods.kubectl.within("kube-system")
    system("delete", "pod", "--selector=k8s-app=kube-dns")
    system("rollout", "status", "deployment/coredns", "--timeout=80s")
    pods.expect(opened={"far": ("web",)}, closed={})


def test_a_pod_that_is_isolated_is_open_to_its_node_alone_until_the_policy_goes(
    pods: Pods, cluster: Cluster
) -> None:
    everybody = dict.fromkeys(("near", "far", "stranger"), (pods.address, "web.shop"))
    pods.expect(opened=everybody, closed={})
    _allow(pods.kubectl)
    pods.expect(opened={}, closed=everybody)
    assert _answers(cluster.nodes[0], pods.address)  # so probes go on
    assert not _answers(cluster.nodes[1], pods.address)
    assert pods.run("web", "nslookup web.shop.svc.cluster.local").returncode == 0
    pods.expect(opened={"web": ("web",)}, closed={})
    pods.kubectl.within(SHOP)("delete", "networkpolicy", "policy")
    pods.expect(opened=everybody, closed={})


def _answers(node: RunningNode, address: str) -> bool:
    """Say whether a program of the node itself, such as its kubelet, reaches the address."""
    enter = ["nsenter", f"--net=/proc/{node.pid}/ns/net"]
    ask = ["timeout", "5", "busybox", "wget", "-qO-", f"http://{address}"]
    return subprocess.run([*enter, *ask], capture_output=True, check=False).stdout == b"hello\n"


def test_a_policy_lets_in_who_it_names_and_follows_when_it_changes(pods: Pods) -> None:
    address = pods.address
    _allow(pods.kubectl, ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "far"}}}]}])
    pods.expect(opened={"far": (address, "web")}, closed={"near": ("web",), "stranger": (address,)})
    lab = {"namespaceSelector": {"matchLabels": {"team": LAB}}}
    _allow(pods.kubectl, ingress=[{"from": [lab], "ports": [{"port": "http"}]}])
    pods.expect(
        opened={"stranger": (address, "web.shop")},
        closed={"far": (address,), "near": (address,), "stranger": (f"{address}:81",)},
    )
    pods.kubectl("label", "namespace", LAB, "team=other", "--overwrite")
    pods.expect(opened={}, closed={"stranger": (address,)})
    pods.kubectl("label", "namespace", LAB, f"team={LAB}", "--overwrite")
    pods.expect(opened={"stranger": (address,)}, closed={})


def test_a_block_of_addresses_has_exceptions_and_ports_ranges(pods: Pods, cluster: Cluster) -> None:
    block = {
        "cidr": cluster.layout.network.pods,
        "except": [cluster.layout.network.pods_of(2)],
    }
    ports = [{"port": 81, "endPort": 90}]
    _allow(pods.kubectl, ingress=[{"from": [{"ipBlock": block}], "ports": ports}])
    side = f"{pods.address}:81"
    pods.expect(opened={"near": (side,)}, closed={"near": (pods.address,), "far": (side,)})


def test_a_policy_for_what_goes_out_holds_on_the_sender_s_node(pods: Pods) -> None:
    dns = {"ports": [{"port": 53, "protocol": "UDP"}]}
    _allow(
        pods.kubectl,
        podSelector={"matchLabels": {"app": "far"}},
        policyTypes=["Egress"],
        egress=[dns, {"to": [{"podSelector": {}}], "ports": [{"port": 81}]}],
    )
    pods.expect(
        opened={"far": ("web:81",), "near": ("web",)}, closed={"far": ("web", pods.address)}
    )


def test_a_new_pod_is_never_open_if_a_policy_isolates_it(pods: Pods) -> None:
    """The rules know its address a moment after it has it; until then nothing gets in or out."""
    policy = {"podSelector": {"matchLabels": {"app": "late"}}, "policyTypes": ["Egress"]}
    _allow(pods.kubectl, **policy)
    inside = pods.kubectl.within(SHOP)
    ask = f"for n in 1 2 3 4 5; do timeout 1 wget -qO- http://{pods.address}; done; echo done"
    inside.apply(pod("late", ask, nodeName="node2", restartPolicy="Never"))
    try:
        inside.wait("jsonpath={.status.phase}=Succeeded", "pod/late")
        assert [line for line in inside("logs", "late").split() if line in {"hello", "done"}] == [
            "done"
        ]
    finally:
        inside("delete", "pod", "late")


def _left(kubectl: Kubectl) -> list[str]:
    """Return what there is of a load."""
    found = kubectl("get", "nodes", f"--selector={MARK}", "--output=name").split()
    found += kubectl("get", "namespace", NAMESPACE, "--ignore-not-found", "--output=name").split()
    leases = kubectl.within("kube-node-lease")("get", "leases", "--output=name").split()
    return found + [lease for lease in leases if "/fake-" in lease]


def test_a_load_is_measured_and_deleted(cluster: Cluster) -> None:
    done = subprocess.run(
        _words(cluster.layout.directory, "load", "--nodes=5", "--pods=60"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    print(done.stdout)
    assert re.search(r"\d+ s: 60 created, 60 scheduled, 60 running", done.stdout)
    for state in ("created", "scheduled", "running"):
        assert re.search(rf"^  {state} +\d+ pods/s$", done.stdout, re.M)
    assert re.search(r"create pods +[\d.]+ ms p50 +[\d.]+ ms p99 +60 calls$", done.stdout, re.M)
    assert re.search(r"list pods +[\d.]+ ms p50 +[\d.]+ ms p99 +\d+ calls$", done.stdout, re.M)
    for program in ("node1 kube-apiserver", "node1 etcd", "node2 kubelet"):
        assert re.search(rf"^  {program} +[1-9]\d* MiB$", done.stdout, re.M)
    eventually(lambda: _left(cluster.kubectl) == [], "nothing of the load is left")


def test_memory_is_told_for_every_program_of_a_node(cluster: Cluster) -> None:
    for node in cluster.nodes:
        assert memory(node).keys() == node.children().keys()
        assert all(size > 2**20 for size in memory(node).values())


def test_fake_and_real_pods_stay_apart_and_ctrl_c_deletes_the_load(cluster: Cluster) -> None:
    with _loading(cluster, "--nodes=5", "--pods=200") as process:
        assert process.stdout
        seen = next(line for line in process.stdout if " running" in line)
        words = _words(cluster.layout.directory, "load")
        again = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert again.stderr.startswith("cluster: a load runs in this cluster already"), seen
        _real_pods_avoid_fake_nodes(cluster.kubectl)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=START_SECONDS)
    assert process.returncode in {0, 1}
    assert errors in {"", "cluster: stopped by Ctrl-C\n"}
    eventually(lambda: _left(cluster.kubectl) == [], "nothing of the load is left")


def test_what_a_killed_load_left_is_deleted_by_the_next(cluster: Cluster) -> None:
    with _loading(cluster, "--nodes=5", "--pods=200") as process:
        assert process.stdout
        assert any(" running" in line for line in process.stdout)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        kubelets = [pid for pid in children if _is_fake_nodes(pid)]
        assert len(kubelets) == 1
        process.kill()
    eventually(lambda: not _is_fake_nodes(kubelets[0]), "the fake kubelets end with the load")
    assert _left(cluster.kubectl)
    subprocess.run(
        _words(cluster.layout.directory, "load", "--nodes=1", "--pods=1"),
        cwd=ROOT,
        timeout=START_SECONDS,
        check=True,
    )
    eventually(lambda: _left(cluster.kubectl) == [], "nothing of the load is left")


def _is_fake_nodes(pid: str) -> bool:
    try:
        return b"fake-nodes" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _loading(cluster: Cluster, *size: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        _words(cluster.layout.directory, "load", *size),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _real_pods_avoid_fake_nodes(kubectl: Kubectl) -> None:
    inside = kubectl.within(SHOP)
    inside.apply(pod("real", "sleep 100000"))
    inside.wait("condition=Ready", "pod/real")
    inside("delete", "pod", "real", "--wait=false")
    listed = json.loads(kubectl("get", "pods", "--all-namespaces", "--output=json"))["items"]
    for item in listed:
        is_fake = item["metadata"]["namespace"] == NAMESPACE
        node = item["spec"].get("nodeName", "")
        if node:
            assert node.startswith("fake-") is is_fake, item["metadata"]["name"]
        if is_fake and "podIP" in item["status"]:
            ours = ipaddress.ip_network("198.18.0.0/15")
            assert ipaddress.ip_address(item["status"]["podIP"]) in ours
