# SPDX-License-Identifier: Apache-2.0
"""What every runtime promises to whoever calls its verbs: the docstrings of `Runtime`, tried out.

The conformance suite asks a server over HTTP and cannot see this seam.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opensandbox_server.errors import RequestRefused
from opensandbox_server.runtimes.base import (
    Change,
    Feature,
    ImageUnknown,
    InstanceState,
    InstanceUnknown,
    LogPart,
    NotSupported,
    Resources,
    Runtime,
    RuntimeEvent,
    SandboxSpec,
    Secrets,
    SnapshotRef,
    StartFailed,
    WrongState,
)
from server.tests.runtimes.runtimes import (
    SLEEP,
    Kind,
    all_parts,
    make,
    opened,
    start,
    status,
    until_exited,
)
from server.tests.test_admission import NEEDS, admitted
from tests.harness.wait import PATIENCE

pytestmark = pytest.mark.anyio
SMALL = Resources(cpus=0.5, memory_bytes=128 << 20, pids=100)
LARGE = Resources(cpus=1.5, memory_bytes=256 << 20, pids=200)
SNAPSHOT = SnapshotRef("of-somebody", 0)


async def states(runtime: Runtime) -> dict[str, InstanceState]:
    return {instance.id: instance.state for instance in await runtime.instances()}


async def limits(runtime: Runtime, name: str) -> Resources:
    """Return what is said of the limits of an instance, which is the same everywhere."""
    (found,) = [each for each in await runtime.instances() if each.id == name]
    assert (await runtime.inspect(name)).instance.limits == found.limits
    return found.limits


async def next_end(events: AsyncIterator[RuntimeEvent]) -> tuple[str, int | None]:
    async with asyncio.timeout(PATIENCE):
        instance = (await anext(events)).instance
    assert instance.state is InstanceState.EXITED
    return instance.id, instance.exit_code


def joined(parts: list[LogPart]) -> bytes:
    """Return what parts say together; nothing is missing between them."""
    for part, following in itertools.pairwise(parts):
        assert following.position == part.end
    return b"".join(part.data for part in parts)


async def read_until(parts: AsyncIterator[LogPart], end: bytes) -> list[LogPart]:
    """Read until all that was read ends so."""
    read: list[LogPart] = []
    async with asyncio.timeout(PATIENCE):
        while not joined(read).endswith(end):
            read.append(await anext(parts))
    return read


async def until_written(runtime: Runtime, name: str, end: bytes) -> None:
    """Wait until an entrypoint has written."""
    async with asyncio.timeout(PATIENCE):
        while not joined(await all_parts(runtime.logs(name))).endswith(end):
            await asyncio.sleep(0.01)


async def close(iterator: AsyncIterator[Any]) -> None:
    assert isinstance(iterator, AsyncGenerator)
    await iterator.aclose()


async def test_a_started_instance_answers_to_its_token_and_to_no_other(runtime: Runtime) -> None:
    instance = await runtime.start(SandboxSpec("one", "host", SLEEP), Secrets("its token"))
    assert instance.state is InstanceState.RUNNING
    assert await asyncio.to_thread(status, instance, "its token") == 200
    assert await asyncio.to_thread(status, instance, "another") == 401


async def test_stopping_repeats_safely_and_leaves_nothing(runtime: Runtime) -> None:
    await runtime.stop("never-was")
    await start(runtime, "one")
    await runtime.stop("one")
    await runtime.stop("one")
    assert await states(runtime) == {}


async def test_an_instance_that_never_was_is_unknown_to_every_verb(runtime: Runtime) -> None:
    change = Change(SMALL)
    for asked in (
        runtime.pause("never-was"),
        runtime.resume("never-was"),
        runtime.inspect("never-was"),
        runtime.update("never-was", change),
        all_parts(runtime.logs("never-was")),
        all_parts(runtime.logs("never-was", follow=True)),
    ):
        with pytest.raises(InstanceUnknown):
            await asked


async def test_pausing_and_resuming_repeat_safely(runtime: Runtime) -> None:
    await start(runtime, "one")
    for verb, state in (
        (runtime.pause, InstanceState.PAUSED),
        (runtime.resume, InstanceState.RUNNING),
    ):
        await verb("one")
        await verb("one")
        assert await states(runtime) == {"one": state}
    await runtime.pause("one")
    await runtime.stop("one")
    assert await states(runtime) == {}


async def test_what_is_resumed_is_returned_with_its_address(runtime: Runtime) -> None:
    started = await start(runtime, "one")
    await runtime.pause("one")
    resumed = await runtime.resume("one")
    assert resumed.state is InstanceState.RUNNING
    assert resumed == replace(started, execd=resumed.execd)
    assert await asyncio.to_thread(status, resumed, "t") == 200


async def test_what_has_exited_cannot_be_changed_and_is_there_until_it_is_stopped(
    runtime: Runtime,
) -> None:
    await start(runtime, "short", ("sh", "-c", "echo bye; exit 4"))
    await until_exited(runtime, "short")
    for asked in (
        runtime.pause("short"),
        runtime.resume("short"),
        runtime.update("short", Change(SMALL)),
    ):
        with pytest.raises(WrongState):
            await asked
    seen = await runtime.inspect("short")
    assert (seen.instance.exit_code, seen.logs) == (4, "bye\n")
    await runtime.stop("short")
    assert await states(runtime) == {}


async def test_a_start_that_fails_leaves_nothing_and_the_name_is_free(runtime: Runtime) -> None:
    with pytest.raises(StartFailed):
        await start(runtime, "one", ("/no/such/program",))
    assert await states(runtime) == {}
    await start(runtime, "one")
    assert await states(runtime) == {"one": InstanceState.RUNNING}


@pytest.mark.parametrize("milliseconds", [0, 1, 5, 20])
async def test_a_cancelled_start_leaves_everything_or_nothing(
    runtime: Runtime, milliseconds: int
) -> None:
    starting = asyncio.create_task(start(runtime, "one"))
    await asyncio.sleep(milliseconds / 1000)
    starting.cancel()
    try:
        await starting
    except asyncio.CancelledError:
        assert await states(runtime) == {}
    else:
        assert await states(runtime) == {"one": InstanceState.RUNNING}


async def test_many_start_beside_each_other(runtime: Runtime) -> None:
    names = [f"many-{number}" for number in range(10)]
    await asyncio.gather(*(start(runtime, name) for name in names))
    assert await states(runtime) == dict.fromkeys(names, InstanceState.RUNNING)
    await asyncio.gather(*(runtime.stop(name) for name in names))
    assert await states(runtime) == {}


async def test_the_next_runtime_of_a_home_finds_what_the_last_one_started(
    kind: Kind, tmp_path: Path
) -> None:
    first = make(kind, tmp_path / "home")
    await first.prepare()
    try:
        instance = await start(first, "runs", ("sh", "-c", "echo before; exec sleep infinity"))
        await until_written(first, "runs", b"before\n")
        await start(first, "sleeps")
        await first.pause("sleeps")
        await first.update("sleeps", Change(SMALL))
        ends = await start(
            first, "ends", ("sh", "-c", "until [ -e go ]; do sleep 0.05; done; exit 6")
        )
    finally:
        await first.close()
    async with opened(kind, tmp_path / "home") as second:
        running, paused = InstanceState.RUNNING, InstanceState.PAUSED
        assert await states(second) == {"runs": running, "sleeps": paused, "ends": running}
        assert await asyncio.to_thread(status, instance, "t") == 200
        assert await limits(second, "sleeps") == SMALL
        assert joined(await all_parts(second.logs("runs", 3))) == b"ore\n"
        events = second.watch()
        command = {"command": "touch go"}
        assert await asyncio.to_thread(status, ends, "t", "/command", command) == 200
        ended, code = await next_end(events)
        assert (ended, code in (6, None)) == (
            "ends",
            True,
        )  # nobody is told how a foster child ends


async def test_what_ends_after_the_call_of_watch_is_told_whenever_somebody_listens(
    runtime: Runtime,
) -> None:
    events = runtime.watch()
    await start(runtime, "short", ("sh", "-c", "sleep 0.1; exit 3"))
    await until_exited(runtime, "short")
    assert await next_end(events) == ("short", 3)


async def test_everybody_who_watches_is_told_everything(runtime: Runtime) -> None:
    first, second, closed = runtime.watch(), runtime.watch(), runtime.watch()
    await start(runtime, "one", ("sh", "-c", "sleep 0.1; exit 1"))
    assert await next_end(closed) == ("one", 1)
    await close(closed)
    await start(runtime, "two", ("sh", "-c", "sleep 0.1; exit 2"))
    for events in (first, second):
        assert [await next_end(events), await next_end(events)] == [("one", 1), ("two", 2)]


async def test_what_is_stopped_is_no_news(runtime: Runtime) -> None:
    events = runtime.watch()
    await start(runtime, "stopped")
    await runtime.stop("stopped")
    await start(runtime, "ends", ("sh", "-c", "sleep 0.1; exit 5"))
    assert await next_end(events) == ("ends", 5)


async def test_limits_are_those_of_the_last_update(runtime: Runtime) -> None:
    started = await start(runtime, "one", resources=SMALL)
    assert started.limits == await limits(runtime, "one") == SMALL
    for wanted in (LARGE, LARGE, SMALL):
        assert (await runtime.update("one", Change(wanted))).limits == wanted
        assert await limits(runtime, "one") == wanted
    assert await runtime.update("one", Change()) == started
    assert (await runtime.update("one", Change(Resources(pids=100)))).limits.cpus is None


async def test_what_is_paused_stays_so_when_it_is_updated(runtime: Runtime) -> None:
    await start(runtime, "one", resources=LARGE)
    await runtime.pause("one")
    updated = await runtime.update("one", Change(SMALL))
    assert updated.state is InstanceState.PAUSED
    await runtime.resume("one")
    assert await limits(runtime, "one") == SMALL


async def test_output_is_read_from_a_position_on(runtime: Runtime) -> None:
    await start(runtime, "one", ("sh", "-c", "echo hello; echo world >&2; exec sleep infinity"))
    await until_written(runtime, "one", b"world\n")
    assert await all_parts(runtime.logs("one")) == [LogPart(0, b"hello\nworld\n")]
    assert await all_parts(runtime.logs("one", 6)) == [LogPart(6, b"world\n")]
    assert await all_parts(runtime.logs("one", 12)) == []
    assert await all_parts(runtime.logs("one", 1000)) == []


async def test_output_of_any_bytes_and_size_comes_whole(runtime: Runtime) -> None:
    script = "head -c 300000 /dev/zero; printf '\\377\\n'"
    await start(runtime, "one", ("sh", "-c", script))
    parts = await all_parts(runtime.logs("one", follow=True))
    assert joined(parts) == bytes(300000) + b"\xff\n"
    assert len(parts) > 1  # nobody holds all of it


async def test_output_is_followed_to_the_end_of_the_instance(runtime: Runtime) -> None:
    entrypoint = ("sh", "-c", "for n in 1 2 3; do echo $n; sleep 0.2; done; exit 1")
    await start(runtime, "one", entrypoint)
    first, second = (runtime.logs("one", follow=True) for _ in range(2))
    both = await asyncio.gather(all_parts(first), all_parts(second))
    assert [joined(parts) for parts in both] == [b"1\n2\n3\n"] * 2
    assert (await states(runtime))["one"] is InstanceState.EXITED
    assert joined(await all_parts(runtime.logs("one", 2, follow=True))) == b"2\n3\n"


async def test_who_follows_hears_what_is_written_later_and_that_it_was_stopped(
    runtime: Runtime,
) -> None:
    await start(runtime, "one", ("sh", "-c", "echo now; sleep 0.5; echo later; sleep infinity"))
    closed = runtime.logs("one", follow=True)
    await read_until(closed, b"now\n")
    await close(closed)
    parts = runtime.logs("one", 4, follow=True)
    assert await read_until(parts, b"later\n")
    rest = asyncio.create_task(all_parts(parts))
    await asyncio.sleep(0.05)
    await runtime.stop("one")
    assert await asyncio.wait_for(rest, PATIENCE) == []


@pytest.mark.parametrize("feature", NEEDS)
async def test_a_create_is_refused_by_what_the_runtime_says_of_itself(
    runtime: Runtime, feature: Feature
) -> None:
    changes, _, _ = NEEDS[feature]
    for tier in (None, "some-tier"):
        is_there = feature in runtime.features_of(tier)
        with contextlib.nullcontext() if is_there else pytest.raises(RequestRefused):
            admitted(changes, runtime.features_of(tier))


async def test_what_it_has_not_among_its_features_it_refuses(runtime: Runtime) -> None:
    assert {Feature.PAUSE, Feature.UPDATE} <= runtime.features
    assert (runtime.volumes is None) == (Feature.VOLUMES not in runtime.features)
    await start(runtime, "one")
    if Feature.SNAPSHOT not in runtime.features:
        for asked in (
            runtime.snapshot("one"),
            runtime.forget(SNAPSHOT),
            runtime.start(SandboxSpec("two", "host", SLEEP), Secrets("t"), SNAPSHOT),
        ):
            with pytest.raises(NotSupported, match="keep snapshots"):
                await asked
    assert await states(runtime) == {"one": InstanceState.RUNNING}


async def test_images_are_listed_and_one_that_is_not_here_is_not_removed(runtime: Runtime) -> None:
    if runtime.images is None:
        return
    assert "host" in [image.name for image in await runtime.images.list()]
    with pytest.raises(ImageUnknown):
        await runtime.images.remove("never-was")
