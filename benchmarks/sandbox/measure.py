# SPDX-License-Identifier: Apache-2.0
"""The measurements. Each returns samples of both sides in one unit."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypedDict

import httpx

from benchmarks.sandbox.docker import Engine
from benchmarks.sandbox.server import Server
from opensandbox import Sandbox, SandboxSync
from opensandbox.models.execd import OutputMessage
from opensandbox.models.execd_sync import ExecutionHandlersSync

GREETING = ("echo", "hello")
LIFE = timedelta(minutes=10)
SETTLE_SECONDS = 0.25  # what one sample leaves to be cleaned up must not slow the next one down
WORTH_TELLING_MS = 1.0  # what is less late is not told: see watched.py


class RawResult(TypedDict):
    """The samples of one benchmark, in unit."""

    name: str
    unit: str
    ours: list[float]
    other: list[float]


@dataclass
class Created:
    """What one create told."""

    first_output_ms: float
    spans: dict[str, float]

    @property
    def share_ms(self) -> float:
        """What the server itself took: everything but the runtime."""
        return self.spans["total"] - self.spans["runtime"]


@dataclass
class Creates:
    """Creates one after the other, with `docker run` in between when there is an engine."""

    ours: list[Created] = field(default_factory=list)
    other: list[float] = field(default_factory=list)

    def results(self) -> list[RawResult]:
        """Fold the samples into results."""
        shares = [one.share_ms for one in self.ours]
        totals = [one.spans["total"] for one in self.ours]
        results = [RawResult(name="server_share_ms", unit="ms", ours=shares, other=totals)]
        if self.other:
            outputs = [one.first_output_ms for one in self.ours]
            compared = RawResult(
                name="create_vs_docker_run", unit="ms", ours=outputs, other=self.other
            )
            results.insert(0, compared)
        return results


def measure_creates(server: Server, image: str, engine: Engine | None, count: int) -> Creates:
    """Take count samples of each side in turn; the first pair only warms up."""
    samples = Creates()
    for number in range(count + 1):
        time.sleep(SETTLE_SECONDS)
        one = create_to_first_output(server, image)
        if number:
            samples.ours.append(one)
        if engine:
            time.sleep(SETTLE_SECONDS)
            took = engine.run_first_output(*GREETING)
            if number:
                samples.other.append(took)
    return samples


def create_to_first_output(server: Server, image: str) -> Created:
    """Create a sandbox, run a command in it, and note when its first output is here."""
    headers: list[str] = []
    arrived: list[float] = []

    def note_header(response: httpx.Response) -> None:
        if "Server-Timing" in response.headers:
            headers.append(response.headers["Server-Timing"])

    def note_output(_: OutputMessage) -> None:
        arrived.append(time.perf_counter())

    config = server.sync_config
    config.event_hooks = {"response": [note_header]}
    handlers = ExecutionHandlersSync(on_stdout=note_output)
    began = time.perf_counter()
    sandbox = SandboxSync.create(image, connection_config=config, timeout=LIFE)
    try:
        sandbox.commands.run(list(GREETING), handlers=handlers)
    finally:
        sandbox.destroy()
    return Created((arrived[0] - began) * 1000, parse_server_timing(headers[0]))


def parse_server_timing(header: str) -> dict[str, float]:
    """Read `name;dur=1.5, …` into milliseconds by name."""
    return {name: float(took) for name, took in re.findall(r"([\w-]+);dur=([\d.]+)", header)}


def measure_bursts(server: Server, image: str, count: int, at_once: int) -> list[RawResult]:
    """Create many at once, several times, and look how late the server's event loop was."""
    walls, alone, stalls, with_waiting = [], [], [], []
    spans: list[dict[str, float]] = []
    for _ in range(count):
        began = time.perf_counter()
        SandboxSync.create(image, connection_config=server.sync_config, timeout=LIFE).destroy()
        alone.append((time.perf_counter() - began) * at_once)
        before = len(server.lateness())
        walls.append(asyncio.run(burst(server, image, at_once, spans)))
        late = server.lateness()[before:] or [(WORTH_TELLING_MS, 0.0)]
        stalls.append(max(by - starved for by, starved in late))
        with_waiting.append(max(by for by, _ in late))
    return [
        RawResult(name=f"creates_{at_once}_at_once", unit="s", ours=walls, other=alone),
        RawResult(name="event_loop_stall", unit="ms", ours=with_waiting, other=stalls),
        RawResult(
            name="server_share_in_burst_ms",
            unit="ms",
            ours=[one["total"] - one["runtime"] for one in spans],
            other=[one["total"] for one in spans],
        ),
    ]


async def burst(server: Server, image: str, at_once: int, spans: list[dict[str, float]]) -> float:
    """Create all at once and return the seconds until the last is there. All must work.

    Adds to spans where the server says that the time of each create went.
    """

    async def note_header(response: httpx.Response) -> None:
        if "Server-Timing" in response.headers:
            spans.append(parse_server_timing(response.headers["Server-Timing"]))

    async def create() -> Sandbox:
        # A burst on a small machine takes longer than one create may.
        config = server.config.model_copy(update={"request_timeout": timedelta(minutes=2)})
        config.event_hooks = {"response": [note_header]}
        return await Sandbox.create(
            image, connection_config=config, timeout=LIFE, ready_timeout=timedelta(minutes=2)
        )

    began = time.perf_counter()
    sandboxes = await asyncio.gather(*(create() for _ in range(at_once)))
    took = time.perf_counter() - began
    runs = await asyncio.gather(*(one.commands.run(list(GREETING)) for one in sandboxes))
    await asyncio.gather(*(one.destroy() for one in sandboxes))
    if any(run.text != GREETING[1] for run in runs):
        raise RuntimeError("a sandbox of the burst does not work")
    return took
