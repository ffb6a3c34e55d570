# SPDX-License-Identifier: Apache-2.0
"""The store: what was written is there after a restart, and faults have one shape."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from opensandbox_server.errors import StartupError, StoreFault
from opensandbox_server.runtimes.base import Resources
from opensandbox_server.sandboxes import wanted as wants
from opensandbox_server.sandboxes.seen_keys import SeenKeys
from opensandbox_server.sandboxes.wanted import Wanted
from opensandbox_server.store import sqlite as stores
from opensandbox_server.store.sqlite import Repeat, Store, open_store

pytestmark = pytest.mark.anyio

NOW = datetime.now(UTC)
FULL = Wanted(
    id="full",
    image="image",
    entrypoint=("a", "b"),
    created_at=NOW,
    expires_at=NOW + timedelta(hours=1),
    env={"A": "ü"},
    metadata={"k": "v"},
    extensions={"x": "y"},
    platform=("linux", "amd64"),
    resources=Resources(cpus=0.5, memory_bytes=1, pids=2, disk_bytes=3),
    isolation="gvisor",
    has_network=False,
    is_readonly=True,
    execd_token="t",  # noqa: S106
    secure_token="s",  # noqa: S106
    has_answered=True,
    is_repeatable=True,
)
BARE = Wanted(id="bare", image="i", entrypoint=("x",), created_at=NOW)
BOUND_SECONDS = 30


@contextlib.asynccontextmanager
async def kept_busy(store: Store) -> AsyncIterator[None]:
    """Give the store's thread work that lasts as long as the block."""
    free = threading.Event()
    work = asyncio.create_task(store._do(lambda _: free.wait(2 * BOUND_SECONDS)))
    await asyncio.sleep(0)  # the work is in the queue of the thread
    try:
        yield
    finally:
        free.set()
        await work


async def test_what_was_wanted_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_store(path) as store:
        await store.insert(FULL)
        await store.insert(BARE)
    async with open_store(path) as store:
        assert {each.id: each for each in await store.sandboxes()} == {"full": FULL, "bare": BARE}


async def test_only_its_owner_can_read_the_store(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db"):
        assert (tmp_path / "store.db").stat().st_mode & 0o077 == 0


async def test_a_deleted_sandbox_takes_its_events_with_it_and_leaves_its_key(
    tmp_path: Path,
) -> None:
    async with open_store(tmp_path / "store.db") as store:
        await store.insert(BARE, Repeat("key", "print", "bare"))
        await store.delete("bare")
        assert await store.sandboxes() == []
        assert await store.events("bare", 10) == []
        assert await store.repeat("key") == Repeat("key", "print", "bare")
        await store.delete("bare", frees_key=True)
        assert await store.repeat("key") is None


async def test_a_change_of_what_is_gone_brings_nothing_back(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        await store.update(BARE, "Renewed")
        assert await store.sandboxes() == []
        assert await store.events("bare", 10) == []


async def test_the_newest_events_come_oldest_first(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        await store.insert(BARE)
        for number in range(5):
            await store.note("bare", "Tick", str(number))
        assert [event.message for event in await store.events("bare", 2)] == ["3", "4"]


async def test_events_of_one_sandbox_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "EVENTS_KEPT", 10)
    async with open_store(tmp_path / "store.db") as store:
        for number in range(100):
            await store.note("bare", "Tick", str(number))
        assert len(await store.events("bare", 1000)) <= 20


async def test_an_old_key_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(tmp_path / "store.db") as store:
        await store.insert(BARE, Repeat("key", "print", "bare"))
        monkeypatch.setattr(stores, "KEY_LIFETIME_SECONDS", -1)
        assert await store.repeat("key") is None


async def test_a_key_that_is_new_does_not_wait_for_a_busy_store(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store, kept_busy(store):
        async with asyncio.timeout(BOUND_SECONDS):
            assert await store.repeat("new") is None


async def test_a_key_that_is_being_written_is_found(tmp_path: Path) -> None:
    repeat = Repeat("key", "print", "bare")
    async with open_store(tmp_path / "store.db") as store, asyncio.TaskGroup() as tasks:
        async with kept_busy(store):
            tasks.create_task(store.insert(BARE, repeat))
            await asyncio.sleep(0)  # the task has begun
            found = tasks.create_task(store.repeat("key"))
        assert await found == repeat


async def test_a_key_is_found_after_a_restart(tmp_path: Path) -> None:
    repeat = Repeat("key", "print", "bare")
    async with open_store(tmp_path / "store.db") as store:
        await store.insert(BARE, repeat)
    async with open_store(tmp_path / "store.db") as store:
        assert await store.repeat("key") == repeat


def test_a_seen_key_is_never_denied() -> None:
    keys = [f"key {number}" for number in range(10_000)]
    seen = SeenKeys(keys[:5_000])
    for key in keys[5_000:]:
        seen.add(key)
    assert all(key in seen for key in keys)
    assert sum(f"other {number}" in seen for number in range(10_000)) < 100


async def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StartupError, match="newer version"):
        async with open_store(path):
            pass


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("x" * 5000)
    with pytest.raises(StartupError, match=r"store\.db"):
        async with open_store(path):
            pass


async def test_a_full_disk_is_a_store_fault_and_loses_nothing(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        await store.insert(BARE)
        await store._do(lambda db: db.execute("PRAGMA max_page_count = 1"))
        big = Wanted(id="big", image="i" * 100_000, entrypoint=("x",), created_at=NOW)
        with pytest.raises(StoreFault, match="full"):
            await store.insert(big)
        assert [each.id for each in await store.sandboxes()] == ["bare"]


async def test_what_a_newer_version_wrote_is_read_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_store(path) as store:
        await store.insert(FULL)
    fields = json.loads(wants.to_json(FULL)) | {"colour": ["blue"]}
    fields["resources"]["gpus"] = 2
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE sandboxes SET wanted = ?", (json.dumps(fields),))
    async with open_store(path) as store:
        (read,) = await store.sandboxes()
        assert replace(read, others={}) == FULL
        await store.update(replace(read, metadata={"a": "b"}), "test")
    with contextlib.closing(sqlite3.connect(path)) as db:
        kept = json.loads(db.execute("SELECT wanted FROM sandboxes").fetchone()[0])
    assert kept == fields | {"metadata": {"a": "b"}}


async def test_nothing_of_a_deleted_sandbox_stays_in_the_file(tmp_path: Path) -> None:
    path, secret = tmp_path / "store.db", "a-secret-that-is-nowhere-else"
    async with open_store(path) as store:
        await store.insert(replace(FULL, env={"PASSWORD": secret}))
        await store.insert(BARE)
    assert secret.encode() in path.read_bytes()
    async with open_store(path) as store:
        await store.delete("full")
    assert secret.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
