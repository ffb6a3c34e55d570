# SPDX-License-Identifier: Apache-2.0
"""What happens by itself goes on after a fault: nothing is missed, and readiness says so."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from opensandbox_server.errors import PartEnded, StoreFault
from opensandbox_server.runtimes.base import Instance, RuntimeEvent, RuntimeFault, RuntimeHome
from opensandbox_server.runtimes.fake import FakeRuntime
from opensandbox_server.serve import _until
from server.tests.world import ANYBODY, World, open_world
from tests.harness.wait import eventually_async

pytestmark = pytest.mark.anyio


@contextlib.contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the store's lock, as a backup does."""
    with contextlib.closing(sqlite3.connect(store)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


async def is_in(world: World, made: dict[str, Any], state: str) -> bool:
    return (await world.sandboxes.get(ANYBODY, made["id"])).status.state == state


async def lives_longer(world: World, made: dict[str, Any], life: timedelta) -> bool:
    until_then = (await world.sandboxes.get(ANYBODY, made["id"])).stored.expires_at
    assert until_then is not None
    return until_then - datetime.now(UTC) > life


async def is_gone(world: World, made: dict[str, Any]) -> bool:
    found = await world.sandboxes.list(ANYBODY, (), {})
    return all(each.stored.id != made["id"] for each in found)


async def readiness(world: World) -> tuple[int, str]:
    answer = await world.client.get("/ready")
    return answer.status_code, answer.json().get("message", "")


async def test_what_happens_while_the_store_is_locked_is_stored_afterwards(tmp_path: Path) -> None:
    renews = {"access.renew.extend.seconds": "3600"}
    async with open_world(tmp_path, renew_intent={"enabled": True}) as world:
        exits, used, expires = [await world.create(extensions=renews) for _ in range(3)]
        assert await readiness(world) == (200, "")
        await world.sandboxes.renew(
            ANYBODY, expires["id"], datetime.now(UTC) + timedelta(seconds=0.5)
        )
        with locked(tmp_path / "opensandbox.db"):
            world.runtime.exit(exits["id"], 7)
            world.sandboxes.saw_traffic({used["id"]: 1})
            await eventually_async(lambda: is_in(world, exits, "Failed"))
            await eventually_async(lambda: bool(world.sandboxes.down))
            assert await readiness(world) == (503, "Down right now: store.")
            assert (await world.client.get("/health")).status_code == 200
            await eventually_async(lambda: is_in(world, expires, "Stopping"))
        await eventually_async(lambda: not world.sandboxes.down)
        await eventually_async(lambda: lives_longer(world, used, timedelta(minutes=50)))
        await eventually_async(lambda: is_gone(world, expires))
        noted = [event.kind for event in await world.sandboxes.events(ANYBODY, exits["id"], 10)]
        assert noted == ["Created", "Started", "Exited"]
        assert await readiness(world) == (200, "")


class StumblingRuntime(FakeRuntime):
    """Raises each fault of a list once: from watch, from its events, and from instances."""

    def __init__(self, home: RuntimeHome, faults: Sequence[Exception]) -> None:
        super().__init__(home)
        self.faults = {verb: list(faults) for verb in ("watch", "events", "instances")}
        self.stumbles = False

    async def instances(self) -> Sequence[Instance]:
        self._stumble("instances")
        return await super().instances()

    def watch(self) -> AsyncIterator[RuntimeEvent]:
        self._stumble("watch")
        return self._events(super().watch())

    async def _events(self, events: AsyncIterator[RuntimeEvent]) -> AsyncIterator[RuntimeEvent]:
        async for event in events:
            self._stumble("events")
            yield event

    def _stumble(self, verb: str) -> None:
        if self.stumbles and self.faults[verb]:
            raise self.faults[verb].pop()


@pytest.mark.parametrize(
    "fault",
    [
        StoreFault("locked"),
        OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
        KeyError("an id"),
        RuntimeFault("away"),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_an_end_is_seen_by_a_watch_that_failed_in_every_way(
    tmp_path: Path, fault: Exception
) -> None:
    (tmp_path / "run").mkdir()
    runtime = StumblingRuntime(RuntimeHome(tmp_path, tmp_path / "run"), [fault])
    async with open_world(tmp_path, runtime) as world:
        missed, seen = await world.create(), await world.create()
        runtime.stumbles = True
        runtime.exit(missed["id"], 0)  # lost with the events that break off here
        await eventually_async(lambda: is_in(world, missed, "Terminated"))
        runtime.exit(seen["id"], 0)
        await eventually_async(lambda: is_in(world, seen, "Terminated"))
        assert not any(runtime.faults.values())
        assert await readiness(world) == (200, "")


async def test_readiness_names_a_closed_door(world: World) -> None:
    world.routes.is_closed = True
    assert await readiness(world) == (503, "Down right now: ingress.")
    world.routes.is_closed = False
    assert await readiness(world) == (200, "")


async def test_a_server_that_lost_a_part_says_so_and_ends() -> None:
    ended = asyncio.Event()
    lives = asyncio.create_task(asyncio.Event().wait(), name="the part that lives")
    gone = asyncio.create_task(asyncio.sleep(0), name="the part that is gone")
    with pytest.raises(PartEnded, match=r"^the part that is gone ended"):
        await _until(ended, lives, gone)
    ended.set()
    await _until(ended, lives)
    lives.cancel()
    await asyncio.gather(lives, return_exceptions=True)
