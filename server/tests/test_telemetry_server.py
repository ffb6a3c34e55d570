# SPDX-License-Identifier: Apache-2.0
"""What a whole server shows of itself: metrics through the public port, and without ingress."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from opensandbox_server.host.programs import find_program
from server.tests.scraping import Scrape
from server.tests.test_ingress import make_program
from server.tests.world import create_request
from tests.harness.server import API_KEY, Serving, serving
from tests.harness.wait import eventually

FAKE = ("--runtime", "fake", "--stop-sandboxes")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Have a place for a server; the real programs are built before tests run."""
    for name in ("execd", "ingress"):
        if find_program(name) is None:
            pytest.fail(f"{name} is not built: make build")
    return tmp_path


def read_metrics(server: Serving) -> Scrape:
    answer = httpx.get(f"{server.url}/metrics", headers={"OPEN-SANDBOX-API-KEY": API_KEY})
    assert answer.status_code == 200, answer.text
    return Scrape(answer.text)


def create(server: Serving) -> str:
    with server.client() as client:
        answer = client.post("/sandboxes", json=create_request())
    assert answer.status_code == 202, answer.text
    sandbox_id: str = answer.json()["id"]
    return sandbox_id


def test_streams_of_sandboxes_are_counted(home: Path) -> None:
    with serving(home / "data", *FAKE) as server:
        path, key = (
            f"sandboxes/{create(server)}/proxy/44772/ping",
            {"OPEN-SANDBOX-API-KEY": API_KEY},
        )
        assert httpx.get(f"{server.url}/{path}", headers=key).status_code == 200
        of_requests = {"kind": "request"}
        eventually(
            lambda: read_metrics(server).value("opensandbox_streams_begun", **of_requests) == 1
        )
        eventually(
            lambda: read_metrics(server).value("opensandbox_streams_open", **of_requests) == 0
        )


def test_metrics_are_read_through_the_public_port_with_the_key(home: Path) -> None:
    with serving(home / "data", *FAKE) as server:
        create(server)
        assert httpx.get(f"{server.url}/metrics").status_code == 401
        found = read_metrics(server)
        assert found.value("opensandbox_creates_total", result="ok") == 1
        assert found.value("opensandbox_sandboxes", state="Running") == 1
        assert found.value("opensandbox_stage_seconds_count", stage="runtime") == 1
        assert {value for _, _, value in found.of("opensandbox_part_up")} == {1}
        assert found.value("opensandbox_build_info") == 1
        assert found.value("process_open_fds") > 0
        stalls = "opensandbox_event_loop_stall_seconds_count"
        eventually(lambda: read_metrics(server).value(stalls) > 1)


def children(pid: int, word: str) -> Iterator[int]:
    """Yield the children of a process whose command line has a word."""
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in listing.read_text().split():
            if word in Path(f"/proc/{child}/cmdline").read_text():
                yield int(child)


def test_an_ingress_that_is_gone_is_shown_as_down(home: Path) -> None:
    program, data = make_program(home), home / "data"
    (home / "execd").symlink_to(find_program("execd") or "")
    config = home / "config.toml"
    config.write_text(f'[server]\nbin_dir = "{home}"\n')
    with serving(data, *FAKE, "--config", str(config)) as server:
        transport = httpx.HTTPTransport(uds=str(data / "run" / "api.sock"))
        headers = {"OPEN-SANDBOX-API-KEY": API_KEY}
        with httpx.Client(transport=transport, base_url="http://api", headers=headers) as client:

            def is_up() -> bool:
                found = Scrape(client.get("/metrics").text)
                return found.value("opensandbox_part_up", part="ingress") == 1

            assert is_up()
            away = program.rename(home / "away")
            for child in children(server.pid, "standin"):
                os.kill(child, signal.SIGKILL)
            eventually(lambda: not is_up())
            away.rename(program)
            eventually(is_up)
