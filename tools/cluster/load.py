# SPDX-License-Identifier: Apache-2.0
"""Fills a cluster with nodes and pods that only pretend, and measures the control plane.

The API server, scheduler and controllers are the real ones; `kube fake-nodes` plays the kubelets.
Fake nodes have a taint that only these pods tolerate, and these pods are bound to fake nodes.
"""

from __future__ import annotations

import contextlib
import fcntl
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tools.cluster.api import connect, list_pods, read_latencies, watch_pods
from tools.cluster.cluster import Cluster
from tools.cluster.component import ClusterError
from tools.cluster.images import PAUSE
from tools.cluster.kubectl import Kubectl
from tools.cluster.node import RunningNode
from tools.cluster.progress import step

NAMESPACE = "cluster-load"
MARK = "opensandbox.io/fake-node"
MOST_NODES, MOST_PODS = 5_000, 50_000
PODS_PER_NODE = 250
_SHARE = 500
"""Pods of one Deployment: a few large ones are what a cluster has."""
_PAGE = 500
_LISTS = 40
"""Pages that are read for the figures of a list, at least."""
_PROGRESS_SECONDS = 2.0
_ENDINGS = (signal.SIGINT, signal.SIGTERM)
_CALLS = {"create": ("POST", "resource"), "list": ("LIST", "namespace")}


@dataclass(frozen=True)
class Size:
    """How much is made."""

    nodes: int
    pods: int


def parse_size(nodes: str, pods: str) -> Size:
    """Return the size that the words of a command line say; what cannot be is an error."""
    size = Size(_count("NODES", nodes, MOST_NODES), _count("PODS", pods, MOST_PODS))
    if size.pods > size.nodes * PODS_PER_NODE:
        least = -(-size.pods // PODS_PER_NODE)
        raise ClusterError(
            f"{size.pods} pods do not fit on {size.nodes} nodes, {PODS_PER_NODE} on each; "
            f"take NODES={least} or more"
        )
    return size


def _count(name: str, given: str, most: int) -> int:
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= most:
        raise ClusterError(f"{name} is {given!r}; choose 1 to {most}")
    return int(given)


def load(cluster: Cluster, size: Size) -> None:
    """Make the nodes and pods, print what was measured, and delete everything again."""
    with (
        _alone(cluster.layout.directory),
        _swept(cluster.kubectl),
        _fake_nodes(cluster, size.nodes),
    ):
        try:
            _measure(cluster, size.pods)
        except httpx.HTTPError as error:
            raise ClusterError(
                f"the API server did not answer ({error}); take fewer PODS, "
                "or look at its log with: python -m tools.cluster status"
            ) from error
        finally:
            with _undisturbed(), step("pods deleted"):
                _delete_pods(cluster.kubectl, _limit(size.pods))


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore Ctrl-C, which has been heard once or comes too late, while things are deleted."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _limit(pods: int) -> int:
    """Bounds how long so many pods may take; a machine that needs longer is too small for them."""
    return 120 + pods // 5


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    with (directory / "load.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError("a load runs in this cluster already; wait for its end") from None
        yield


@contextlib.contextmanager
def _swept(kubectl: Kubectl) -> Iterator[None]:
    """Delete the fake nodes afterwards, and before too what a load left that was killed."""
    _sweep(kubectl)
    try:
        yield
    finally:
        with _undisturbed(), step("nodes deleted"):
            _sweep(kubectl)


def _sweep(kubectl: Kubectl) -> None:
    kubectl("delete", "nodes", f"--selector={MARK}", "--wait=false")
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
    # No kubelet is there any more that could say that they have ended.
    kubectl("delete", f"--raw=/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
    _wait_until_gone(kubectl, _limit(MOST_PODS // 10))


@contextlib.contextmanager
def _fake_nodes(cluster: Cluster, count: int) -> Iterator[None]:
    """Play the nodes' kubelets. They end with their input, so also when this program is killed."""
    log = cluster.layout.directory / "fake-nodes.log"
    command = [
        *(str(cluster.layout.binary.kube), "fake-nodes"),
        *(f"--kubeconfig={cluster.layout.kubeconfig}", f"--nodes={count}"),
        f"--pods-per-node={PODS_PER_NODE}",
    ]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for us; the pods still have to be deleted
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        try:
            with step(f"{count} fake nodes"):
                heard, _, _ = select.select([process.stdout], [], [], _limit(count))
                if not heard or process.stdout.readline() != b"ready\n":
                    raise ClusterError(f"the fake nodes did not start; their log: {log}")
            yield
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _measure(cluster: Cluster, pods: int) -> None:
    with connect(cluster.layout.kubeconfig) as client:
        before = {name: read_latencies(client, **_labels(name)) for name in _CALLS}
        cluster.kubectl("create", "namespace", NAMESPACE)
        seen = _run_pods(cluster.kubectl, client, pods)
        for _ in range(-(-_LISTS * _PAGE // pods)):
            for _ in list_pods(client, NAMESPACE, _PAGE):
                pass
        print(f"\n{pods} pods on fake nodes")
        print(f"  {'created':<32} {seen.rate(seen.created):8.0f} pods/s")
        print(f"  {'scheduled':<32} {seen.rate(seen.bound):8.0f} pods/s")
        print(f"  {'running':<32} {seen.rate(seen.running):8.0f} pods/s")
        for name in _CALLS:
            calls = read_latencies(client, **_labels(name)).since(before[name])
            fast, slow = (1000 * (calls.quantile(share) or 0) for share in (0.5, 0.99))
            what = f"API server, {name} pods"
            print(f"  {what:<32} {fast:8.1f} ms p50 {slow:8.1f} ms p99 {calls.calls:7d} calls")
    for node in cluster.nodes:
        for name, size in sorted(memory(node).items()):
            print(f"  {f'{node.node.name} {name}':<32} {size / 2**20:8.0f} MiB")
    print()


def _labels(call: str) -> dict[str, str]:
    verb, scope = _CALLS[call]
    return {"resource": "pods", "subresource": "", "verb": verb, "scope": scope}


@dataclass
class Seen:
    """When each pod was first seen in each state, by a watch."""

    began: float
    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    running: dict[str, float] = field(default_factory=dict)

    def rate(self, times: dict[str, float]) -> float:
        """Return pods per second from the first request to the last pod in this state."""
        return len(times) / (max(times.values()) - self.began)

    def line(self) -> str:
        """Return how far it is."""
        return (
            f"  {time.monotonic() - self.began:5.0f} s: {len(self.created)} created, "
            f"{len(self.bound)} scheduled, {len(self.running)} running"
        )


def _run_pods(kubectl: Kubectl, client: httpx.Client, pods: int) -> Seen:
    """Make Deployments and wait until all their pods run."""
    sizes = [min(_SHARE, pods - made) for made in range(0, pods, _SHARE)]
    seen = Seen(time.monotonic())
    kubectl.within(NAMESPACE).apply(*(_deployment(i, size) for i, size in enumerate(sizes)))
    shown = seen.began
    for change in watch_pods(client, NAMESPACE, _limit(pods)):
        now = time.monotonic()
        seen.created.setdefault(change.name, now)
        if change.is_bound:
            seen.bound.setdefault(change.name, now)
        if change.is_running:
            seen.running.setdefault(change.name, now)
        if now - shown >= _PROGRESS_SECONDS or len(seen.running) == pods:
            shown = now
            print(seen.line(), flush=True)
        if len(seen.running) == pods:
            return seen
    raise ClusterError(
        f"after {_limit(pods)} s only {len(seen.running)} of {pods} pods run; "
        "take fewer PODS, or look at fake-nodes.log beside the kubeconfig and at the components "
        "with: python -m tools.cluster status"
    )


def _deployment(number: int, replicas: int) -> dict[str, Any]:
    labels = {"app": f"load-{number}"}
    pod = {
        "nodeSelector": {MARK: "true"},
        "tolerations": [{"key": MARK, "operator": "Exists"}],
        "automountServiceAccountToken": False,
        "containers": [{"name": "none", "image": PAUSE, "imagePullPolicy": "Never"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"load-{number}"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _delete_pods(kubectl: Kubectl, seconds: int) -> None:
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
    _wait_until_gone(kubectl, seconds)


def _wait_until_gone(kubectl: Kubectl, seconds: int) -> None:
    deadline = time.monotonic() + seconds
    while kubectl.attempt(
        "wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=60s"
    ).returncode:
        if time.monotonic() > deadline:
            raise ClusterError(
                f"namespace {NAMESPACE} is not gone after {seconds} s; "
                "run the load again to delete it"
            )


def memory(node: RunningNode) -> dict[str, int]:
    """Return how many bytes each of a node's programs uses, shared pages by their share."""
    return {name: _proportional(pid) for name, pid in _processes(node).items()}


def _processes(node: RunningNode) -> dict[str, int]:
    """Return the programs' process ids as the host has them; the node knows others."""
    inner = {
        child["pid"]: name for name, child in node.children().items() if child["ended"] is None
    }
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    found = {}
    for pid in map(int, children):
        status = Path(f"/proc/{pid}/status").read_text()
        within = next(line for line in status.splitlines() if line.startswith("NSpid:"))
        name = inner.get(int(within.split()[-1]))
        if name is not None:
            found[name] = pid
    return found


def _proportional(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    line = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) * 1024
