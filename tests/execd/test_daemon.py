# SPDX-License-Identifier: Apache-2.0
"""The small routes, one shape of error on all, logs and metrics."""

import json
import time

from tests.execd.events import assert_error, run
from tests.harness.execd import SANDBOX_ID, Daemon


def test_ping_is_200_with_an_empty_body(daemon: Daemon) -> None:
    answer = daemon.client.get("/ping")
    assert (answer.status_code, answer.content) == (200, b"")


def test_ready_tells_which_sandbox_this_is(daemon: Daemon) -> None:
    answer = daemon.client.get("/ready")
    assert answer.status_code == 200
    assert answer.json() == {"initialized": True, "sandboxId": SANDBOX_ID, "generation": 0}


def test_an_unknown_route_is_404_with_the_usual_body(daemon: Daemon) -> None:
    for path in ("/", "/nope", "/ping/", "//ping", "/command/x/y/z", "/v1/filesystem/1/files"):
        assert_error(daemon.client.get(path), 404, "UNKNOWN")


def test_a_wrong_method_is_405_and_says_which_are_right(daemon: Daemon) -> None:
    answer = daemon.client.put("/command")
    assert_error(answer, 405, "NOT_SUPPORTED")
    assert set(answer.headers["allow"].replace(" ", "").split(",")) >= {"POST", "DELETE"}


def test_what_comes_later_is_501(daemon: Daemon) -> None:
    assert_error(daemon.client.post("/internal/init", json={}), 501, "NOT_SUPPORTED")


def test_isolated_runs_are_503_with_a_reason(daemon: Daemon) -> None:
    capabilities = daemon.client.get("/v1/isolated/capabilities")
    assert capabilities.status_code == 200
    assert capabilities.json()["available"] is False
    assert capabilities.json()["message"]
    assert None not in capabilities.json().values()
    answer = daemon.client.post("/v1/isolated/session", json={"workspace": {"path": "/"}})
    assert_error(answer, 503, "SERVICE_UNAVAILABLE")
    assert_error(daemon.client.get("/v1/isolated/sessions"), 503, "SERVICE_UNAVAILABLE")


def test_metrics_are_within_their_bounds(daemon: Daemon) -> None:
    metrics = daemon.client.get("/metrics").json()
    assert metrics["cpu_count"] > 0
    assert 0 <= metrics["cpu_used_pct"] <= 100
    assert 0 < metrics["mem_used_mib"] <= metrics["mem_total_mib"]
    assert abs(metrics["timestamp"] / 1000 - time.time()) < 60


def test_metrics_are_watched_one_line_after_another(daemon: Daemon) -> None:
    with daemon.client.stream("GET", "/metrics/watch") as response:
        assert "text/event-stream" in response.headers["content-type"]
        lines = response.iter_lines()
        first, second = (json.loads(next(lines)) for _ in range(2))
    assert second["timestamp"] > first["timestamp"]
    assert set(first) == {
        "cpu_count",
        "cpu_used_pct",
        "mem_total_mib",
        "mem_used_mib",
        "timestamp",
    }


def test_the_log_is_json_and_has_the_command_id(daemon: Daemon) -> None:
    identifier = run(daemon.client, "echo not-in-the-log").id
    lines = daemon.log_path.read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert [entry for entry in entries if identifier in entry.values()]
    assert "not-in-the-log" not in daemon.log_path.read_text().replace("echo not-in-the-log", "")
