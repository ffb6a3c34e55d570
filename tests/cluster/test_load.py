# SPDX-License-Identifier: Apache-2.0
"""What a load measures and refuses, without a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.cluster.api import Latencies, parse_latencies

ROOT = Path(__file__).resolve().parents[2]
_NAME = "apiserver_request_duration_seconds_bucket"
METRICS = f"""
# TYPE apiserver_request_duration_seconds histogram
{_NAME}{{resource="pods",scope="resource",verb="POST",le="0.1"}} 50
{_NAME}{{resource="pods",scope="resource",verb="POST",le="0.2"}} 90
{_NAME}{{resource="pods",scope="resource",verb="POST",le="+Inf"}} 100
{_NAME}{{resource="pods",scope="resource",verb="LIST",le="+Inf"}} 7
{_NAME}{{resource="nodes",scope="resource",verb="POST",le="0.1"}} 3
apiserver_request_duration_seconds_sum{{resource="pods",scope="resource",verb="POST"}} 12.5
process_resident_memory_bytes 4.2e+08
"""


def test_latencies_are_read_for_the_wanted_calls_alone() -> None:
    latencies = parse_latencies(METRICS, resource="pods", verb="POST")
    assert latencies.counts == {0.1: 50, 0.2: 90, float("inf"): 100}
    assert latencies.calls == 100
    assert parse_latencies(METRICS, resource="secrets").calls == 0


def test_quantiles_lie_inside_the_bucket_and_never_beyond_the_last() -> None:
    latencies = parse_latencies(METRICS, resource="pods", verb="POST")
    assert latencies.quantile(0.5) == pytest.approx(0.1)
    assert latencies.quantile(0.7) == pytest.approx(0.15)
    assert latencies.quantile(0.99) == pytest.approx(0.2)


def test_quantiles_of_no_calls_do_not_exist() -> None:
    none = Latencies({0.1: 0.0, float("inf"): 0.0})
    assert none.quantile(0.5) is None
    assert Latencies({}).quantile(0.5) is None


def test_only_the_calls_since_the_beginning_count() -> None:
    before = Latencies({0.1: 40.0, 0.2: 50.0, float("inf"): 50.0})
    after = Latencies({0.1: 41.0, 0.2: 59.0, float("inf"): 60.0})
    assert after.since(before).counts == {0.1: 1.0, 0.2: 9.0, float("inf"): 10.0}


@pytest.mark.parametrize(
    ("nodes", "pods", "message"),
    [
        ("0", "10", "NODES is '0'; choose 1 to 5000"),
        ("-3", "10", "NODES is '-3'; choose 1 to 5000"),
        ("many", "10", "NODES is 'many'; choose 1 to 5000"),
        ("²", "10", "NODES is '²'; choose 1 to 5000"),
        ("10", "", "PODS is ''; choose 1 to 50000"),
        ("10", "1e3", "PODS is '1e3'; choose 1 to 50000"),
        ("5000", "50001", "PODS is '50001'; choose 1 to 50000"),
        ("2", "501", "501 pods do not fit on 2 nodes, 250 on each; take NODES=3 or more"),
    ],
)
def test_a_size_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, nodes: str, pods: str, message: str
) -> None:
    words = [sys.executable, "-m", "tools.cluster", f"--directory={tmp_path}", "load"]
    done = subprocess.run(
        [*words, f"--nodes={nodes}", f"--pods={pods}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"cluster: {message}\n")


def test_a_load_needs_a_cluster(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tools.cluster", f"--directory={tmp_path}", "load"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("cluster: no cluster runs here; start one with: make cluster")
