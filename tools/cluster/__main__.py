# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster on this machine: python -m tools.cluster start|stop|status|…"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from tools.cluster.checks import run_checks
from tools.cluster.cluster import Cluster, find_cluster, require_cluster, start, stop
from tools.cluster.component import ClusterError
from tools.cluster.load import load, parse_size

DIRECTORY = Path(__file__).resolve().parents[2] / "build/cluster"


def main() -> int:
    """Do what the command line says; a fault is one line and exit status 1."""
    options = _parser().parse_args()
    try:
        return int(options.verb(options) or 0)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("cluster: stopped by Ctrl-C", file=sys.stderr)
    return 1


def _start(options: argparse.Namespace) -> None:
    began = time.monotonic()
    cluster = start(options.directory, options.nodes, options.block)
    if options.check:
        try:
            run_checks(cluster)
        except ClusterError as error:
            raise ClusterError(f"{error} (it still runs; make cluster-stop ends it)") from error
    took = time.monotonic() - began
    print(f"The cluster is ready ({took:.0f} s). Stop it with: make cluster-stop")
    print(f"export KUBECONFIG={cluster.layout.kubeconfig}")
    print(f"export PATH={cluster.layout.directory}:$PATH  # has kubectl")


def _stop(options: argparse.Namespace) -> None:
    there = stop(options.directory)
    print("The cluster is stopped." if there else "No cluster is there to stop.")


def _status(options: argparse.Namespace) -> int:
    cluster = find_cluster(options.directory)
    if cluster is None:
        print("No cluster runs.")
        return 1
    for node in cluster.nodes if cluster.is_alive else []:
        for name, child in sorted(node.children().items()):
            state = "runs" if child["ended"] is None else "ended"
            print(f"{node.node.name:<8} {name:<26} {state:<6} {node.node.logs / name}.log")
    dead = cluster.dead()
    for line in dead:
        print(f"cluster: {line}", file=sys.stderr)
    return 1 if dead else 0


def _restart(options: argparse.Namespace) -> None:
    node = require_cluster(options.directory).find(options.name)
    node.restart(options.name.rpartition("/")[2])
    print(f"{options.name} of {node.node.name} is ready again.")


def _load_image(options: argparse.Namespace) -> None:
    cluster: Cluster = require_cluster(options.directory)
    if not options.tar.is_file():
        raise ClusterError(
            f"{options.tar} is not a file; make one with: docker save or skopeo copy"
        )
    cluster.load_image(options.tar.resolve())
    print(f"{options.tar} is on every node; use its name with imagePullPolicy: Never")


def _check(options: argparse.Namespace) -> None:
    run_checks(require_cluster(options.directory))


def _load(options: argparse.Namespace) -> None:
    # However it is ended, what it made is deleted first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    size = parse_size(options.nodes, options.pods)
    load(require_cluster(options.directory), size)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.cluster", description=__doc__)
    wanted = os.environ.get("CLUSTER_DIR")
    parser.add_argument(
        "--directory",
        type=lambda given: Path(given).resolve(),
        default=Path(wanted).resolve() if wanted else DIRECTORY,
        help="where the cluster keeps its files (default: build/cluster, or $CLUSTER_DIR)",
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    started = verbs.add_parser("start", help="start a cluster and wait until it is usable")
    started.add_argument("--nodes", type=int, default=1, help="how many nodes (default: 1)")
    started.add_argument(
        "--block", type=int, help="N of its addresses, 10.N.0.0/16 (default: free)"
    )
    started.add_argument("--no-check", dest="check", action="store_false", help="do not try it out")
    started.set_defaults(verb=_start)
    verbs.add_parser("check", help="try out a cluster that runs").set_defaults(verb=_check)
    stopped = verbs.add_parser("stop", help="stop the cluster; nothing of it stays")
    stopped.set_defaults(verb=_stop)
    verbs.add_parser("status", help="list its programs").set_defaults(verb=_status)
    again = verbs.add_parser("restart", help="end one of its programs and start it again")
    again.add_argument("name", help="such as kube-scheduler or node2/kubelet")
    again.set_defaults(verb=_restart)
    image = verbs.add_parser("load-image", help="load an image from a tar file into every node")
    image.add_argument("tar", type=Path)
    image.set_defaults(verb=_load_image)
    filled = verbs.add_parser("load", help="fill it with nodes and pods that only pretend")
    filled.add_argument("--nodes", default="100", help="how many fake nodes (default: 100)")
    filled.add_argument("--pods", default="1000", help="how many pods on them (default: 1000)")
    filled.set_defaults(verb=_load)
    return parser


if __name__ == "__main__":
    sys.exit(main())
