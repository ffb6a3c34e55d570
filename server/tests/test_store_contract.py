# SPDX-License-Identifier: Apache-2.0
"""What every store promises, tried out on each kind of database."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opensandbox_server.errors import StartupError
from opensandbox_server.runtimes.base import Resources, SandboxSpec
from opensandbox_server.store import store as contract
from opensandbox_server.store.store import (
    Changes,
    KeyTaken,
    Query,
    Store,
    StoreConflict,
    UsedKey,
)
from opensandbox_server.store.stored import StoredSandbox
from server.tests.databases import Database, PostgresDatabase, SqliteDatabase
from tests.harness.postgres import PostgresServer

pytestmark = pytest.mark.anyio

NOW = datetime.now(UTC)
FULL = StoredSandbox(
    SandboxSpec(
        id="full",
        image="image",
        entrypoint=("a", "b"),
        env={"A": "ü\x01😀"},
        resources=Resources(cpus=0.5, memory_bytes=1, pids=2, disk_bytes=3, gpus="all"),
        platform=("linux", "amd64"),
        isolation="gvisor",
        has_network=False,
        is_readonly=True,
        hostname="h",
    ),
    created_at=NOW,
    owner="somebody",
    state="Pending",
    state_at=NOW,
    expires_at=NOW + timedelta(hours=1),
    metadata={"k": "v"},
    extensions={"x": "y\x00z"},
    execd_token="t",  # noqa: S106
    secure_token="s",  # noqa: S106
    has_answered=True,
    is_repeatable=True,
)
BARE = StoredSandbox(SandboxSpec("bare", "i", ("x",)), created_at=NOW - timedelta(seconds=1))
KEY = UsedKey("", "key", "print", "bare")
WRITERS = 8


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """Have an empty database of each kind."""
    if request.param == "sqlite":
        return SqliteDatabase(tmp_path / "store.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return PostgresDatabase(server.new_schema())


def named(name: str, **changes: object) -> StoredSandbox:
    """Return a sandbox like BARE with another id."""
    return replace(BARE, spec=replace(BARE.spec, id=name), **changes)  # type: ignore[arg-type]


async def ids(store: Store, **query: object) -> list[str]:
    """Ask for sandboxes and return who they are."""
    return [each.id for each in await store.query(Query(**query))]  # type: ignore[arg-type]


async def kinds(store: Store, sandbox_id: str) -> list[str]:
    """Return what happened to a sandbox, in a word each."""
    return [event.kind for event in await store.events(sandbox_id, 1000)]


class TestRemembering:
    """What was written is there, for every client and after a restart."""

    async def test_everything_of_a_sandbox_comes_back(self, database: Database) -> None:
        async with database.open() as store:
            await store.insert(FULL)
            await store.insert(BARE)
        async with database.open() as store:
            assert await store.get("full") == FULL
            assert list(await store.query(Query())) == [FULL, BARE]
            assert await store.get("nobody") is None

    async def test_a_query_restricts_by_all_that_it_names(self, database: Database) -> None:
        async with database.open() as store:
            for number in range(6):
                tags = {"n": str(number % 2), "a.b/c-d": 'quo"te'}
                at = NOW + timedelta(seconds=number)
                owner, state = "even" if number % 2 == 0 else "odd", "Running" if number else ""
                made = replace(named(str(number)), created_at=at, metadata=tags)
                await store.insert(replace(made, owner=owner, state=state))
            assert await ids(store) == list("543210")
            assert await ids(store, owner="odd") == list("531")
            assert await ids(store, owner="") == []
            assert await ids(store, states=["Running", "Paused"]) == list("54321")
            assert await ids(store, metadata={"n": "0", "a.b/c-d": 'quo"te'}) == list("420")
            assert await ids(store, metadata={"n": "0", "other": ""}) == []
            assert await ids(store, limit=2, offset=3) == list("21")
            assert await ids(store, owner="even", states=["Running"], limit=1) == ["4"]

    async def test_a_row_that_cannot_be_read_is_left_out_and_stays(
        self, database: Database, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with database.open() as store:
            await store.insert(BARE)
            await store.insert(FULL)
            database.spoil("bare")
            assert await ids(store) == ["full"]
            assert await store.get("bare") is None
            assert "sandbox bare cannot be had" in caplog.text
            assert [each.id for each in (await store.changes(None)).changed] == ["full"]
            await store.delete("bare")
            await store.insert(BARE)
            assert await store.get("bare") == BARE

    async def test_what_a_newer_version_wrote_is_read_and_kept(self, database: Database) -> None:
        resources = {"gpus": "all", "cpus": 0.5, "memory_bytes": 1, "pids": 2, "disk_bytes": 3}
        spec = {"image": "image", "entrypoint": ["a", "b"], "resources": resources | {"tpus": 2}}
        async with database.open() as store:
            await store.insert(FULL)
            database.execute("UPDATE sandboxes SET spec = %s", json.dumps(spec | {"sound": [1]}))
            database.execute("UPDATE sandboxes SET others = %s", json.dumps({"colour": "blue"}))
            read = await store.get("full")
            assert read is not None
            beside = {"sound": [1], "resources": {"tpus": 2}}
            assert read.others == {"colour": "blue", "spec": beside}
            await store.update(replace(read, metadata={"a": "b"}), read.revision, "test")
            again = await store.get("full")
            assert again == replace(read, metadata={"a": "b"}, revision=2)


class TestUpdate:
    """Compare and swap."""

    async def test_a_change_is_based_on_what_there_is(self, database: Database) -> None:
        async with database.open() as one, database.open() as other:
            await one.insert(BARE)
            assert await one.update(replace(BARE, metadata={"by": "one"}), 1, "First", "m") == 2
            with pytest.raises(StoreConflict):
                await other.update(replace(BARE, metadata={"by": "other"}), 1, "Second")
            found = await other.get("bare")
            assert found == replace(BARE, metadata={"by": "one"}, revision=2)
            assert await other.update(replace(BARE, metadata={"by": "other"}), 2, "Third") == 3
            assert await kinds(one, "bare") == ["Created", "First", "Third"]

    async def test_what_is_gone_stays_gone(self, database: Database) -> None:
        async with database.open() as store:
            with pytest.raises(StoreConflict):
                await store.update(BARE, 1, "Renewed")
            assert await ids(store) == []
            assert await kinds(store, "bare") == []

    async def test_a_state_that_was_seen_meanwhile_is_kept(self, database: Database) -> None:
        async with database.open() as store:
            await store.insert(BARE)
            await store.update(BARE, 1, "Started", state="Running")
            await store.note("bare", "Paused", state="Paused", at=NOW.timestamp())
            await store.update(BARE, 2, "Renewed")
            found = await store.get("bare")
            assert found
            assert (found.state, found.revision) == ("Paused", 3)
            assert found.state_at
            assert abs(found.state_at - NOW) < timedelta(milliseconds=1)

    async def test_two_clients_lose_none_of_their_changes(self, database: Database) -> None:
        async def add_tags(store: Store, name: str) -> None:
            for number in range(20):
                is_done = False
                while not is_done:
                    found = await store.get("bare")
                    assert found
                    wanted = replace(found, metadata={**found.metadata, f"{name}{number}": ""})
                    try:
                        await store.update(wanted, found.revision, "Tagged")
                        is_done = True
                    except StoreConflict:
                        continue

        async with database.open() as one, database.open() as other:
            await one.insert(BARE)
            await asyncio.gather(add_tags(one, "a"), add_tags(other, "b"), add_tags(other, "c"))
            found = await one.get("bare")
            assert found
            assert (len(found.metadata), found.revision) == (60, 61)


class TestEvents:
    """What happened."""

    async def test_the_newest_come_oldest_first(self, database: Database) -> None:
        async with database.open() as store:
            await store.insert(BARE)
            for number in range(5):
                await store.note("bare", "Tick", str(number), at=float(number))
            found = await store.events("bare", 2)
            assert [(event.message, event.at) for event in found] == [("3", 3.0), ("4", 4.0)]

    async def test_they_are_bounded(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(contract, "EVENTS_KEPT", 10)
        async with database.open() as store:
            await store.insert(BARE)
            for number in range(100):
                await store.note("bare", "Tick", str(number))
            found = await store.events("bare", 1000)
            assert 10 <= len(found) <= 20
            assert found[-1].message == "99"

    async def test_a_note_changes_nothing_that_is_wanted(self, database: Database) -> None:
        async with database.open() as store:
            await store.insert(BARE)
            await store.note("bare", "Paused", "m\x00", state="Paused")
            found = await store.get("bare")
            assert found
            assert found == replace(BARE, state="Paused", state_at=found.state_at)

    async def test_the_same_end_seen_by_two_is_noted_once(self, database: Database) -> None:
        async with database.open() as one, database.open() as other:
            await one.insert(BARE)
            sight = [each.note("bare", "Exited", state="Failed") for each in (one, other, one)]
            await asyncio.gather(*sight)
            assert await kinds(one, "bare") == ["Created", "Exited"]

    async def test_nothing_is_noted_of_what_is_gone(self, database: Database) -> None:
        async with database.open() as store:
            await store.note("bare", "Tick")
            await store.note("bare", "Paused", state="Paused")
            assert await kinds(store, "bare") == []


class TestDelete:
    """The end of a row."""

    async def test_it_takes_events_and_leaves_the_key(self, database: Database) -> None:
        async with database.open() as store:
            await store.insert(BARE, KEY)
            await store.delete("bare")
            await store.delete("bare")
            assert await ids(store) == []
            assert await kinds(store, "bare") == []
            assert await store.key("", "key") == KEY

    async def test_a_create_that_failed_frees_its_key(self, database: Database) -> None:
        async with database.open() as store:
            await store.insert(BARE, KEY)
            await store.delete("bare", frees_key=True)
            assert await store.key("", "key") is None
            await store.insert(named("next"), replace(KEY, sandbox_id="next"))


class TestKeys:
    """Idempotency: the insert decides."""

    async def test_a_key_that_was_used_inserts_nothing(self, database: Database) -> None:
        async with database.open() as one, database.open() as other:
            await one.insert(BARE, KEY)
            with pytest.raises(KeyTaken) as taken:
                await other.insert(named("b"), UsedKey("", "key", "other print", "b"))
            assert taken.value.former == KEY
            assert await ids(other) == ["bare"]
            assert await kinds(other, "b") == []

    async def test_a_key_is_its_owners(self, database: Database) -> None:
        async with database.open() as store:
            await store.insert(BARE, KEY)
            theirs = UsedKey("they", "key", "print", "b")
            await store.insert(named("b", owner="they"), theirs)
            assert await store.key("they", "key") == theirs
            assert await store.key("", "key") == KEY
            assert await store.key("nobody", "key") is None

    async def test_of_many_at_once_one_succeeds(self, database: Database) -> None:
        async def make(store: Store, name: str) -> str:
            try:
                await store.insert(named(name), replace(KEY, sandbox_id=name))
            except KeyTaken as taken:
                return taken.former.sandbox_id
            return name

        async with database.open() as one, database.open() as other:
            made = await asyncio.gather(
                *(make(one if number % 2 else other, str(number)) for number in range(16))
            )
            assert await ids(one) == list(set(made)) == [made[0]]

    async def test_an_old_key_is_forgotten(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with database.open() as store:
            await store.insert(BARE, KEY)
            monkeypatch.setattr(contract, "KEY_LIFETIME_SECONDS", -1)
            assert await store.key("", "key") is None
            await store.insert(named("b"), replace(KEY, sandbox_id="b"))
            monkeypatch.setattr(contract, "KEY_LIFETIME_SECONDS", 3600)
            assert await store.key("", "key") == replace(KEY, sandbox_id="b")


class TestDue:
    """Who ends what expired."""

    async def test_whoever_asks_for_what_is_over_gets_it(self, database: Database) -> None:
        async with database.open() as store:
            await store.insert(replace(BARE, expires_at=NOW, has_answered=True))
            assert await store.due("bare") == 0
            assert await store.due("bare") == 0, "the lease is ours"
            assert await store.due("gone") == 0


class TestChanges:
    """What others do."""

    async def test_everything_first_and_then_what_changes(self, database: Database) -> None:
        async with database.open() as store, database.open() as other:
            await store.insert(BARE)
            await store.insert(FULL)
            first = await store.changes(None)
            assert first.is_whole
            assert {each.id for each in first.changed} == {"bare", "full"}
            assert (await store.changes(first.position)).changed == []
            await other.insert(named("new"))
            await other.update(replace(BARE, metadata={"a": "b"}), 1, "Tagged")
            await other.delete("full")
            second = await store.changes(first.position)
            assert not second.is_whole
            assert {each.id: each.revision for each in second.changed} == {"new": 1, "bare": 2}
            assert set(second.gone) == {"full"}
            await other.note("new", "Tick")
            assert (await store.changes(second.position)).changed == []
            await other.note("new", "Paused", state="Paused")
            (third,) = (await store.changes(second.position)).changed
            assert third.state == "Paused"

    async def test_a_position_that_means_nothing_gives_everything(self, database: Database) -> None:
        async with database.open() as store:
            before = (await store.changes(None)).position
            await store.insert(BARE)
        async with database.open() as store:
            found = await store.changes(before)
            assert [each.id for each in found.changed] == ["bare"]

    async def test_a_change_wakes_whoever_waits(self, database: Database) -> None:
        async with database.open() as store, database.open() as other:
            position = (await store.changes(None)).position
            waiting = asyncio.create_task(store.changed())
            await other.insert(BARE)
            began = time.monotonic()
            await waiting
            assert time.monotonic() - began < 2
            assert len((await store.changes(position)).changed) == 1

    async def test_eight_writers_at_once_and_none_is_missed(self, database: Database) -> None:
        seen: dict[str, int] = {}

        def take(news: Changes) -> str:
            for each in news.changed:
                assert seen.get(each.id, 0) <= each.revision
                seen[each.id] = each.revision
            for name in news.gone:
                seen.pop(name, None)
            return news.position

        async def follow(store: Store, is_over: asyncio.Event) -> None:
            position = take(await store.changes(None))
            while not is_over.is_set():
                position = take(await store.changes(position))
                await asyncio.sleep(0)
            take(await store.changes(position))

        async with database.open() as reader, database.open() as one, database.open() as other:
            is_over = asyncio.Event()
            following = asyncio.create_task(follow(reader, is_over))
            writers = (write(one if n % 2 else other, f"w{n}") for n in range(WRITERS))
            written = await asyncio.gather(*writers)
            is_over.set()
            await following
            assert seen == {name: revision for each in written for name, revision in each.items()}


async def write(store: Store, writer: str) -> Mapping[str, int]:
    """Insert, change and delete; return who is left, in which revision."""
    left = {}
    for number in range(12):
        made = named(f"{writer}-{number}")
        await store.insert(made)
        revision = 1
        for _ in range(number % 3):
            revision = await store.update(made, revision, "Changed")
        if number % 4 == 3:
            await store.delete(made.id)
        else:
            left[made.id] = revision
    return left


class TestBelonging:
    """A store and the data directory whose sandboxes are in it."""

    async def test_a_store_that_knows_none_of_the_sandboxes_is_refused(
        self, database: Database
    ) -> None:
        async with database.open("one") as store:
            with pytest.raises(StartupError, match="knows none of the 2 sandboxes"):
                await store.belong(["a", "b"])
            await store.insert(BARE)
            await store.belong(["a", "bare"])
