# SPDX-License-Identifier: Apache-2.0
"""Traces: a real exporter sends them to a real collector, and they continue the client's."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from opensandbox_server.errors import StartupError
from opensandbox_server.runtimes.base import Instance, SandboxSpec, Secrets, SnapshotRef
from opensandbox_server.runtimes.fake import FakeRuntime
from opensandbox_server.telemetry.spans import span
from opensandbox_server.telemetry.tracing import trace_id_of
from server.tests.collecting import Collector, attributes_of, collecting
from server.tests.world import World, create_request, make_runtime, open_world
from tests.harness.server import NotServing, serving

pytestmark = pytest.mark.anyio

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
CREATE = "POST /sandboxes"


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Collect what one test exports."""
    with collecting() as running:
        yield running


@contextlib.asynccontextmanager
async def exporting(
    data_dir: Path, url: str, runtime: FakeRuntime | None = None
) -> AsyncIterator[World]:
    """Run a server that exports; everything is sent when it is left."""
    otel = {"enabled": True, "endpoint": url, "service_name": "the server of a test"}
    async with open_world(data_dir, runtime, otel=otel) as world:
        yield world


async def ask_for(world: World, headers: dict[str, str] | None = None, **changes: Any) -> int:
    body = create_request(**changes)
    return (await world.client.post("/v1/sandboxes", json=body, headers=headers)).status_code


@pytest.mark.parametrize("more", [{}, {"Idempotency-Key": "once"}], ids=["plain", "with a key"])
async def test_a_create_continues_the_trace_of_its_client(
    tmp_path: Path, collector: Collector, more: dict[str, str]
) -> None:
    async with exporting(tmp_path, collector.url) as world:
        assert await ask_for(world, {"traceparent": TRACEPARENT, **more}) == 202
    root = collector.named(CREATE)
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    assert root.kind == Span.SpanKind.SPAN_KIND_SERVER
    below = [each for each in collector.spans() if each.parent_span_id == root.span_id]
    assert sorted(each.name for each in below) == ["route", "runtime", "store", "store"]
    assert {each.trace_id.hex() for each in collector.spans()} == {TRACE}
    assert all(root.start_time_unix_nano <= each.start_time_unix_nano for each in below)
    assert all(each.end_time_unix_nano <= root.end_time_unix_nano for each in below)
    assert (collector.paths, collector.service_names()) == (
        {"/v1/traces"},
        {"the server of a test"},
    )


async def test_a_request_without_a_trace_begins_one(tmp_path: Path, collector: Collector) -> None:
    async with exporting(tmp_path, f"{collector.url}/v1/traces") as world:
        await world.client.get("/v1/sandboxes", headers={"X-Request-ID": "mine"})
        await world.client.get("/v1/sandboxes/nobody", headers={"traceparent": "nonsense"})
    listed, missed = (
        collector.named("GET /sandboxes"),
        collector.named("GET /sandboxes/{sandbox_id}"),
    )
    assert (listed.parent_span_id, missed.parent_span_id) == (b"", b"")
    assert listed.trace_id != missed.trace_id
    assert attributes_of(listed) == {
        "http.request.method": "GET",
        "http.response.status_code": 200,
        "http.route": "/sandboxes",
        "opensandbox.request.id": "mine",
    }
    assert attributes_of(missed)["error.type"] == "FAKE::SANDBOX_NOT_FOUND"
    assert missed.status.code == Status.StatusCode.STATUS_CODE_UNSET
    assert collector.paths == {"/v1/traces"}


class Detailed(FakeRuntime):
    """A runtime that measures something inside of its start."""

    async def start(
        self, spec: SandboxSpec, secrets: Secrets, source: SnapshotRef | None = None
    ) -> Instance:
        with span("inside"):
            return await super().start(spec, secrets, source)


async def test_a_span_in_another_is_below_it(tmp_path: Path, collector: Collector) -> None:
    runtime = Detailed(make_runtime(tmp_path)._home)
    async with exporting(tmp_path, collector.url, runtime) as world:
        assert await ask_for(world) == 202
    assert collector.named("inside").parent_span_id == collector.named("runtime").span_id


async def test_a_failure_is_told_by_its_code_and_nothing_of_anybody_by_a_trace(
    tmp_path: Path, collector: Collector
) -> None:
    async with exporting(tmp_path, collector.url) as world:
        auth = {"username": "u", "password": "password-of-mine"}
        env, tags = {"NAME_OF_MINE": "value-of-mine"}, {"team": "tag-of-mine"}
        image = {"uri": "broken-of-mine", "auth": auth}
        assert await ask_for(world, image=image, env=env, metadata=tags) == 500
        made = await world.create(image={"uri": "image-of-mine"}, env=env, secureAccess=True)
        await world.client.get("/v1/path-of-mine?query=of-mine")
        await world.client.request("METHOD-OF-MINE", "/v1/sandboxes")
        route = world.routes.table[made["id"]]
    failed = next(each for each in collector.spans() if each.status.code)
    root = next(each for each in collector.spans() if each.span_id == failed.parent_span_id)
    assert (failed.name, failed.status.message) == ("runtime", "StartFault")
    assert root.status.code == Status.StatusCode.STATUS_CODE_ERROR
    assert attributes_of(root)["error.type"] == "FAKE::SANDBOX_START_FAILED"
    sent = b"".join(collector.bodies).lower()
    assert b"_other" in sent
    for secret in ("of-mine", "of_mine", route.execd_token, route.secure_token, "a key of the"):
        assert secret.lower().encode() not in sent


async def test_what_a_client_does_not_sample_is_not_sent(
    tmp_path: Path, collector: Collector
) -> None:
    async with exporting(tmp_path, collector.url) as world:
        assert await ask_for(world, {"traceparent": f"00-{TRACE}-{PARENT}-00"}) == 202
    assert collector.spans() == []


async def test_two_servers_of_one_process_export_apart(
    tmp_path: Path, collector: Collector
) -> None:
    with collecting() as another:
        async with (
            exporting(tmp_path / "a", collector.url) as world,
            exporting(tmp_path / "b", another.url),
        ):
            await ask_for(world)
        assert (len(collector.spans()), len(another.spans())) == (5, 0)


async def test_an_address_that_is_no_url_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"otel.endpoint: must begin with http"):
        async with exporting(tmp_path, "collector:4317"):
            pass


@pytest.mark.parametrize(
    ("header", "trace_id"),
    [
        (TRACEPARENT, TRACE),
        (f"cc-{TRACE}-{PARENT}-00", TRACE),
        (f"ff-{TRACE}-{PARENT}-01", ""),
        (f"00-{'0' * 32}-{PARENT}-01", ""),
        (f"00-{TRACE}-{'0' * 16}-01", ""),
        (f"00-{TRACE.upper()}-{PARENT}-01", ""),
        (f"{TRACEPARENT}\n", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_only_what_has_the_form_continues_a_trace(header: str | None, trace_id: str) -> None:
    assert trace_id_of(header) == trace_id


def config(home: Path, text: str) -> tuple[str, ...]:
    """Write a config file; returns the flags of a server that uses it."""
    path = home / "config.toml"
    path.write_text(text)
    return ("--runtime", "fake", "--stop-sandboxes", "--config", str(path))


def test_a_server_that_ends_has_sent_everything_and_the_log_has_the_trace(
    tmp_path: Path, collector: Collector
) -> None:
    otel = f'[otel]\nenabled = true\nendpoint = "{collector.url}"\n[log]\nlevel = "DEBUG"\n'
    with serving(tmp_path / "data", *config(tmp_path, otel)) as server:
        with server.client() as client:
            client.get("/sandboxes", headers={"traceparent": TRACEPARENT})
            client.get("/sandboxes/nobody")
        assert collector.spans() == []
        assert server.end() == 0
        log = server.log
    assert collector.named("GET /sandboxes").trace_id.hex() == TRACE
    assert f"trace={TRACE}" in log
    assert f"trace={collector.named('GET /sandboxes/{sandbox_id}').trace_id.hex()}" in log


def test_a_collector_that_is_away_keeps_nobody_waiting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
        otel = f'[otel]\nenabled = true\nendpoint = "{url}"\nexport_interval_millis = 10\n'
        with serving(tmp_path / "data", *config(tmp_path, otel)) as server:
            with server.client() as client:
                for _ in range(3):
                    assert client.get("/sandboxes").status_code == 200
                    time.sleep(0.05)
            assert server.end() == 0


def test_a_server_without_the_packages_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_first(tmp_path, monkeypatch, "import sys; sys.modules['opentelemetry.sdk'] = None")
    with pytest.raises(NotServing, match=r"pip install 'opensandbox-server\[otel\]'"):
        serving(tmp_path / "data", *config(tmp_path, "[otel]\nenabled = true\n")).__enter__()
    with serving(tmp_path / "data", *config(tmp_path, "")):
        pass


def test_a_server_that_exports_nothing_does_not_load_the_packages() -> None:
    program = "import sys, opensandbox_server.serve; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "opensandbox_server.telemetry.tracing" in loaded
    # The interface alone comes with FastAPI; it does nothing.
    assert [name for name in loaded if re.match(r"opentelemetry\.(sdk|exporter)", name)] == []


GLOBAL_PROVIDER = """
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
trace.get_tracer("the test").start_span("before all").end()
"""


def test_frameworks_below_us_export_nothing_of_their_own(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    # FastAPI has spans, too, with what clients sent in them, for whoever exports in this process.
    import_first(tmp_path, monkeypatch, GLOBAL_PROVIDER)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with (
        serving(tmp_path / "data", *config(tmp_path, "")) as server,
        server.client() as client,
    ):
        assert client.get("/sandboxes").status_code == 200
    assert {each.name for each in collector.spans()} == {"before all"}


def import_first(home: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let every Python that is started from here on run a program before all else."""
    place = home / "path" / "sitecustomize.py"
    place.parent.mkdir()
    place.write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(place.parent))
