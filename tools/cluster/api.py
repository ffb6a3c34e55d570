# SPDX-License-Identifier: Apache-2.0
"""Calls the API server directly, where kubectl would be too slow: watches, long lists, metrics."""

from __future__ import annotations

import base64
import json
import re
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

_CALL_SECONDS = 60.0
_RETRY_SECONDS = 0.2
"""Between two watches, so that a server that is down is not asked all the time."""
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def connect(kubeconfig: Path) -> httpx.Client:
    """Return a client with the certificate of a kubeconfig, for the cluster that it names."""
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.TemporaryDirectory() as directory:
        # The library reads certificates from files only.
        pair = [Path(directory) / name for name in ("certificate", "key")]
        for file, name in zip(pair, ("client-certificate-data", "client-key-data"), strict=True):
            file.touch(mode=0o600)
            file.write_bytes(base64.b64decode(user[name]))
        context.load_cert_chain(str(pair[0]), str(pair[1]))
    return httpx.Client(
        base_url=cluster["server"], verify=context, timeout=_CALL_SECONDS, trust_env=False
    )


@dataclass(frozen=True)
class PodChange:
    """What a watch says about a pod."""

    name: str
    is_bound: bool
    is_running: bool


def watch_pods(client: httpx.Client, namespace: str, seconds: int) -> Iterator[PodChange]:
    """Yield every change of a namespace's pods, first what is there; ends after the seconds.

    A busy API server ends watches that it finds too slow: then what is there comes once more.
    """
    deadline = time.monotonic() + seconds
    while (left := int(deadline - time.monotonic())) > 0:
        with suppress(httpx.TransportError):
            yield from _watch_once(client, namespace, left)
        time.sleep(_RETRY_SECONDS)


def _watch_once(client: httpx.Client, namespace: str, seconds: int) -> Iterator[PodChange]:
    """Rows of a table are a tenth of the objects, and say enough."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    query: dict[str, str | int] = {
        "watch": "true",
        "includeObject": "None",
        "timeoutSeconds": seconds,
    }
    columns: list[str] = []
    headers = {"Accept": _TABLE}
    with client.stream("GET", path, params=query, headers=headers) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            table = event["object"]
            columns = [column["name"] for column in table.get("columnDefinitions") or []] or columns
            for row in table["rows"]:
                cells = dict(zip(columns, row["cells"], strict=True))
                yield PodChange(
                    cells["Name"],
                    is_bound=cells["Node"] != "<none>",
                    is_running=cells["Status"] == "Running",
                )


def list_pods(client: httpx.Client, namespace: str, page: int) -> Iterator[dict[str, Any]]:
    """Yield the pages of a list of all pods of a namespace, as kubectl asks for them."""
    query: dict[str, str | int] = {"limit": page}
    while True:
        answer = client.get(f"/api/v1/namespaces/{namespace}/pods", params=query)
        answer.raise_for_status()
        listed: dict[str, Any] = answer.json()
        yield listed
        if not listed["metadata"].get("continue"):
            return
        query["continue"] = listed["metadata"]["continue"]


@dataclass(frozen=True)
class Latencies:
    """How many calls took at most so many seconds, as the API server counts them."""

    counts: dict[float, float]

    def since(self, before: Latencies) -> Latencies:
        """Return only the calls that were made after the others were read."""
        earlier = before.counts
        return Latencies({most: n - earlier.get(most, 0.0) for most, n in self.counts.items()})

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return int(self.counts.get(float("inf"), 0))

    def quantile(self, share: float) -> float | None:
        """Return how long that share of the calls took at most; none without calls.

        Inside a bucket calls are taken to be spread evenly, as Prometheus does.
        """
        wanted, lower, below = share * self.calls, 0.0, 0.0
        for upper, count in sorted(self.counts.items()):
            if count >= wanted and self.calls:
                if upper == float("inf"):
                    return lower
                return lower + (upper - lower) * (wanted - below) / ((count - below) or 1)
            lower, below = upper, count
        return None


def read_latencies(client: httpx.Client, **wanted: str) -> Latencies:
    """Return the latencies of all calls whose labels are the wanted ones."""
    answer = client.get("/metrics")
    answer.raise_for_status()
    return parse_latencies(answer.text, **wanted)


def parse_latencies(metrics: str, **wanted: str) -> Latencies:
    """Return the latencies of calls with these labels from the text of the API server's metrics."""
    counts: dict[float, float] = {}
    for line in metrics.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None or sample[1] != "apiserver_request_duration_seconds_bucket":
            continue
        labels = dict(_LABEL.findall(sample[2]))
        if wanted.items() <= labels.items():
            most = float(labels["le"])
            counts[most] = counts.get(most, 0.0) + float(sample[3])
    return Latencies(counts)
