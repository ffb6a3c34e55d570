# SPDX-License-Identifier: Apache-2.0
"""Spans reach the request they are done for, wherever they are done, and nobody else's."""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections.abc import Callable
from typing import Any

import pytest

from opensandbox_server.telemetry.spans import Trace, begin, current_trace, span
from server.tests.world import World, create_request

pytestmark = pytest.mark.anyio

OF_CREATE = {"total", "store", "runtime", "route"}


def spans_of(header: str) -> dict[str, float]:
    """Read a Server-Timing header; whatever is in it that is no span fails."""
    parts = [re.fullmatch(r"(\w+);dur=(\d+\.\d{3})", part) for part in header.split(", ")]
    assert all(parts), header
    return {part[1]: float(part[2]) for part in parts if part}


def in_a_request(work: Callable[[], Any]) -> Trace:
    """Do something as a request of its own would."""
    trace = Trace("a request")

    def do() -> None:
        begin(trace)
        work()

    contextvars.copy_context().run(do)
    return trace


def test_a_span_in_another_is_told_and_a_name_used_twice_adds_up() -> None:
    def work() -> None:
        for _ in range(2):
            with span("outer"), span("inner"):
                pass
        trace = current_trace()
        assert trace
        trace.add("inner", 2.0)

    spans = spans_of(in_a_request(work).server_timing())
    assert list(spans) == ["total", "inner", "outer"]
    assert spans["inner"] >= 2000 > spans["outer"]


def test_what_fails_is_measured_too() -> None:
    def work() -> None:
        with pytest.raises(KeyError), span("failing"):
            raise KeyError

    assert "failing" in spans_of(in_a_request(work).server_timing())


def test_outside_of_a_request_nothing_is_kept() -> None:
    def work() -> None:
        with span("nobody's"):
            assert current_trace() is None

    contextvars.Context().run(work)


async def test_a_task_adds_to_the_request_that_started_it_and_to_no_other() -> None:
    async def answer(name: str, trace: Trace) -> None:
        begin(trace)

        async def work() -> None:
            with span(name):
                await asyncio.sleep(0)

        await asyncio.create_task(work())

    traces = [Trace("one"), Trace("another")]
    await asyncio.gather(answer("a", traces[0]), answer("b", traces[1]))
    assert [set(spans_of(trace.server_timing())) for trace in traces] == [
        {"total", "a"},
        {"total", "b"},
    ]


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "once"}], ids=["plain", "with a key"])
async def test_create_tells_the_same_stages_with_and_without_a_key(
    world: World, headers: dict[str, str]
) -> None:
    answer = await world.client.post("/v1/sandboxes", json=create_request(), headers=headers)
    spans = spans_of(answer.headers["server-timing"])
    assert set(spans) == OF_CREATE
    assert next(iter(spans)) == "total"
    assert sum(spans.values()) <= 2 * spans["total"]


async def test_a_repeated_create_tells_only_its_own_time(world: World) -> None:
    headers = {"Idempotency-Key": "once"}
    for stages in (OF_CREATE, {"store", "total"}):  # the store knows the key
        answer = await world.client.post("/v1/sandboxes", json=create_request(), headers=headers)
        assert set(spans_of(answer.headers["server-timing"])) == stages
