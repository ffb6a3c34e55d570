# SPDX-License-Identifier: Apache-2.0
"""/metrics: what is counted, who may read it, and what never appears in it."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from opensandbox_server.runtimes.base import (
    Instance,
    RuntimeHome,
    SandboxSpec,
    Secrets,
    SnapshotRef,
)
from opensandbox_server.runtimes.fake import FakeRuntime
from opensandbox_server.telemetry.metrics import Metrics
from opensandbox_server.telemetry.stalls import MEASURE_SECONDS, measure_stalls
from server.tests.scraping import Scrape, scrape
from server.tests.test_background import locked
from server.tests.world import World, create_request, open_world
from tests.harness.wait import eventually_async

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
CREATES = "opensandbox_creates_total"
STAGES = "opensandbox_stage_seconds_count"
REQUESTS = "opensandbox_request_seconds_count"


async def ask_for(world: World, key: str = "", **changes: object) -> int:
    """Ask for a sandbox; returns the status of the answer."""
    headers = {"Idempotency-Key": key} if key else {}
    body = create_request(**changes)
    return (await world.client.post("/v1/sandboxes", json=body, headers=headers)).status_code


class TestReading:
    """Who may read them, and where."""

    @pytest.mark.parametrize("path", ["/metrics", "/v1/metrics"])
    async def test_a_scrape_needs_the_key(self, world: World, path: str) -> None:
        known = await world.client.get(path)
        assert known.status_code == 200
        assert known.headers["content-type"].startswith("text/plain; version=")
        for key in ("", "another key"):
            answer = await world.client.get(path, headers={"OPEN-SANDBOX-API-KEY": key})
            assert (answer.status_code, "opensandbox_" in answer.text) == (401, False)

    async def test_two_servers_of_one_process_share_nothing(self, tmp_path: Path) -> None:
        async with open_world(tmp_path / "a") as one, open_world(tmp_path / "b") as other:
            await one.create()
            assert (await scrape(one)).value(CREATES, result="ok") == 1
            assert (await scrape(other)).of(CREATES) == []

    async def test_every_metric_is_documented(self, world: World) -> None:
        await world.create()
        text = (await scrape(world)).text
        families = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
        own = {name for name in families if name.startswith("opensandbox_")}
        assert set(re.findall(r"^\| `(opensandbox_\w+)` \|", PAGE, re.MULTILINE)) == own
        assert all(name.startswith("process_") for name in families - own)

    async def test_nothing_of_anybody_is_in_them(self, world: World) -> None:
        secrets = {"image": "image-of-mine", "env": "value-of-mine", "metadata": "tag-of-mine"}
        made = await world.create(
            image={"uri": secrets["image"]},
            env={"NAME_OF_MINE": secrets["env"]},
            metadata={"team": secrets["metadata"]},
            secureAccess=True,
        )
        headers = {"X-Request-ID": "request-of-mine", "Idempotency-Key": "key-of-mine"}
        for image in ("unknown-of-mine", "broken-of-mine"):
            body = create_request(image={"uri": image})
            await world.client.post("/v1/sandboxes", json=body, headers=headers)
        for path in (f"sandboxes/{made['id']}", "sandboxes/id-of-mine", "path-of-mine?q=of-mine"):
            await world.client.get(f"/v1/{path}", headers=headers)
        await world.client.request("METHOD-OF-MINE", "/v1/sandboxes")
        text = (await scrape(world)).text
        route = world.routes.table[made["id"]]
        assert route.execd_token
        assert route.secure_token
        for secret in (made["id"], route.execd_token, route.secure_token, "of-mine", "OF_MINE"):
            assert secret.lower() not in text.lower()

    async def test_strange_paths_and_methods_make_no_more_lines(self, world: World) -> None:
        async def ask(numbers: range) -> Scrape:
            for number in numbers:
                await world.client.get(f"/v1/{number}")
                await world.client.get(f"/v1/sandboxes/{number}")
                await world.client.request(f"VERB{number}", "/v1/sandboxes")
            return await scrape(world)

        await ask(range(1))
        before, after = await ask(range(1, 2)), await ask(range(2, 12))
        assert len(after.samples) == len(before.samples)
        assert after.value(REQUESTS, method="GET", route="none") == 12
        assert after.value(REQUESTS, method="other", route="/sandboxes", status="4xx") == 12


class TestCreates:
    """Creates by how they ended, and what they spent their time on."""

    async def test_creates_are_counted_by_how_they_ended(self, world: World) -> None:
        assert await ask_for(world) == 202
        assert await ask_for(world, entrypoint=["nul\0"]) == 400
        assert await ask_for(world, timeout=1) == 422
        for _ in range(2):
            assert await ask_for(world, image={"uri": "broken"}) == 500
        found = await scrape(world)
        told = {(has["result"], has["code"]): value for _, has, value in found.of(CREATES)}
        assert told == {
            ("ok", ""): 1,
            ("refused", "FAKE::INVALID_ENTRYPOINT"): 1,
            ("refused", "422"): 1,
            ("failed", "FAKE::SANDBOX_START_FAILED"): 2,
        }

    async def test_a_fault_that_nobody_expected_is_a_failed_create(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        async with open_world(
            tmp_path, Stumbling(RuntimeHome(tmp_path, tmp_path / "run"))
        ) as world:
            assert await ask_for(world) == 500
            found = await scrape(world)
            assert found.value(CREATES, result="failed") == 1
            assert found.value(REQUESTS, route="/sandboxes", status="5xx") == 1

    async def test_who_has_no_key_asks_for_no_sandbox(self, world: World) -> None:
        world.client.headers["OPEN-SANDBOX-API-KEY"] = "another"
        assert await ask_for(world) == 401
        world.client.headers["OPEN-SANDBOX-API-KEY"] = "a key of the tests"
        found = await scrape(world)
        assert found.of(CREATES) == []
        assert found.value(REQUESTS, route="none", status="4xx") == 1

    @pytest.mark.parametrize("key", ["", "once"])
    async def test_each_stage_of_a_create_is_measured(self, world: World, key: str) -> None:
        await ask_for(world, key)
        found = await scrape(world)
        counted = {has["stage"]: value for _, has, value in found.of(STAGES)}
        assert counted == {"store": 2, "runtime": 1, "route": 1, "total": 1}
        spent = found.value("opensandbox_stage_seconds_sum", stage="total")
        assert spent >= found.value("opensandbox_stage_seconds_sum", stage="runtime") > 0

    async def test_a_failed_create_has_no_total(self, world: World) -> None:
        await ask_for(world, image={"uri": "broken"})
        assert (await scrape(world)).labels(STAGES, "stage") == {"store", "runtime"}

    async def test_buckets_go_from_a_millisecond_to_half_a_minute(self, world: World) -> None:
        await ask_for(world)
        bounds = (await scrape(world)).labels("opensandbox_stage_seconds_bucket", "le") - {"+Inf"}
        assert (min(map(float, bounds)), max(map(float, bounds))) == (0.001, 30)


class Stumbling(FakeRuntime):
    """A runtime with a fault of its own in every start."""

    async def start(self, spec: SandboxSpec, *_: object) -> Instance:
        raise KeyError(spec.id)


class TestRequests:
    """Requests by route."""

    async def test_requests_are_counted_by_template_with_and_without_a_version(
        self, world: World
    ) -> None:
        made = await world.create()
        for path in (f"/sandboxes/{made['id']}", f"/v1/sandboxes/{made['id']}"):
            await world.client.get(path)
        await world.client.get("/v1/sandboxes/nobody")
        found, route = await scrape(world), "/sandboxes/{sandbox_id}"
        assert found.value(REQUESTS, method="GET", route=route, status="2xx") == 2
        assert found.value(REQUESTS, method="GET", route=route, status="4xx") == 1

    async def test_what_is_still_being_answered_is_in_flight(self, tmp_path: Path) -> None:
        (tmp_path / "run").mkdir()
        runtime = Waiting(RuntimeHome(tmp_path, tmp_path / "run"))
        async with open_world(tmp_path, runtime) as world:
            asking = asyncio.create_task(ask_for(world))
            await runtime.is_asked.wait()
            during = await scrape(world)
            runtime.may_start.set()
            assert await asking == 202
            after = await scrape(world)
        name = "opensandbox_requests_in_flight"  # the scrape is one, too
        assert (during.value(name), after.value(name)) == (2, 1)


class Waiting(FakeRuntime):
    """A runtime that starts nothing before it is told to."""

    def __init__(self, home: RuntimeHome) -> None:
        super().__init__(home)
        self.is_asked, self.may_start = asyncio.Event(), asyncio.Event()

    async def start(
        self, spec: SandboxSpec, secrets: Secrets, source: SnapshotRef | None = None
    ) -> Instance:
        self.is_asked.set()
        await self.may_start.wait()
        return await super().start(spec, secrets, source)


class TestState:
    """What is looked up at every scrape."""

    async def test_sandboxes_are_counted_by_state(self, world: World) -> None:
        made = [await world.create() for _ in range(3)]
        await world.client.post(f"/v1/sandboxes/{made[0]['id']}/pause")
        await world.client.delete(f"/v1/sandboxes/{made[1]['id']}")
        found = await scrape(world)
        counted = {has["state"]: value for _, has, value in found.of("opensandbox_sandboxes")}
        assert {state: value for state, value in counted.items() if value} == {
            "Running": 1,
            "Paused": 1,
        }
        assert counted["Failed"] == 0

    async def test_a_closed_door_is_down_and_up_again(self, world: World) -> None:
        for is_closed in (False, True, False):
            world.routes.is_closed = is_closed
            found = await scrape(world)
            assert found.value("opensandbox_part_up", part="ingress") == (not is_closed)
            assert found.value("opensandbox_part_up", part="store") == 1

    async def test_every_task_is_named_and_a_store_in_trouble_is_down(self, tmp_path: Path) -> None:
        async with open_world(tmp_path) as world:
            made = await world.create()
            names = (await scrape(world)).labels("opensandbox_part_up", "part")
            assert {"ingress", "runtime", "store", "expiry", "the watch of the runtime"} <= names
            with locked(tmp_path / "opensandbox.db"):
                world.runtime.exit(made["id"], 7)
                await eventually_async(lambda: bool(world.sandboxes.down))
                found = await scrape(world)
                assert found.value("opensandbox_part_up", part="store") == 0
            await eventually_async(lambda: not world.sandboxes.down)
            assert (await scrape(world)).value("opensandbox_part_up", part="store") == 1


async def test_a_stall_of_the_event_loop_is_measured() -> None:
    metrics, stall = Metrics(), 0.6
    async with measure_stalls(metrics.saw_stall):
        await asyncio.sleep(0.01)
        time.sleep(MEASURE_SECONDS + stall)  # the stall
        await asyncio.sleep(0.01)
    found = Scrape((await metrics.scrape([], {}, {})).decode())
    assert found.value("opensandbox_event_loop_stall_seconds_sum") >= stall - 0.1
    assert found.value("opensandbox_event_loop_stall_seconds_bucket", le="0.25") == 0
