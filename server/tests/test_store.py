# SPDX-License-Identifier: Apache-2.0
"""The store of one server: a file that others cannot read, brought to this version step by step."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from opensandbox_server.errors import StartupError, StoreFault
from opensandbox_server.runtimes.base import SandboxSpec
from opensandbox_server.store import migrations
from opensandbox_server.store.sqlite import open_sqlite
from opensandbox_server.store.sqlite_file import read_file
from opensandbox_server.store.store import Query, UsedKey
from opensandbox_server.store.stored import NotUnderstood, StoredSandbox
from server.tests.store_script import VERBS, seen
from server.tests.test_store_contract import BARE, FULL, NOW

pytestmark = pytest.mark.anyio


async def test_only_its_owner_can_read_the_store(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "store.db"):
        assert (tmp_path / "store.db").stat().st_mode & 0o077 == 0


async def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StartupError, match="newer version"):
        async with open_sqlite(path):
            pass
    with pytest.raises(StartupError, match="newer version"):
        read_file(path)


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("x" * 5000)
    with pytest.raises(StartupError, match=r"store\.db"):
        async with open_sqlite(path):
            pass


async def test_another_data_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_sqlite(path, data_dir_id="one") as store:
        await store.belong([])
    async with open_sqlite(path, data_dir_id="one") as store:
        await store.belong(["whoever"])
    with pytest.raises(StartupError, match="belongs to another data directory"):
        await open_sqlite(path, data_dir_id="other").__aenter__()


async def test_a_full_disk_is_a_store_fault_and_loses_nothing(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "store.db") as store:
        await store.insert(BARE)
        await store._do(lambda db: db.execute("PRAGMA max_page_count = 1"))
        big = StoredSandbox(SandboxSpec("big", "i" * 100_000, ("x",)), created_at=NOW)
        with pytest.raises(StoreFault, match="full"):
            await store.insert(big)
        assert [each.id for each in await store.query(Query())] == ["bare"]


async def test_nothing_of_a_deleted_sandbox_stays_in_the_file(tmp_path: Path) -> None:
    path, secret = tmp_path / "store.db", "a-secret-that-is-nowhere-else"
    async with open_sqlite(path) as store:
        await store.insert(replace(FULL, spec=replace(FULL.spec, env={"PASSWORD": secret})))
        await store.insert(BARE)
    assert secret.encode() in path.read_bytes()
    async with open_sqlite(path) as store:
        await store.delete("full")
    assert secret.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


async def test_the_environment_is_apart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_sqlite(path) as store:
        await store.insert(replace(FULL, spec=replace(FULL.spec, env={"PASSWORD": "a secret"})))
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        row = dict(db.execute("SELECT * FROM sandboxes").fetchone())
    assert [name for name, value in row.items() if "secret" in str(value)] == ["env"]


async def test_killed_at_any_statement_it_leaves_whole_verbs(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "server.tests.store_script", tmp_path], check=True)
    async with open_sqlite(tmp_path / "whole") as store:
        whole = [await seen(store)]
        for verb in VERBS:
            await verb(store)
            whole.append(await seen(store))
    cut_off = sorted(tmp_path.glob("*.db"), key=lambda path: int(path.stem))
    assert len(cut_off) > 4 * len(VERBS)
    found = []
    for path in cut_off:
        async with open_sqlite(path) as store:
            found.append(whole.index(await seen(store)))
    assert found == sorted(found)
    assert set(found) == set(range(len(VERBS) + 1))


class TestMigrations:
    """Each step begins with what the version before wrote."""

    FLAT: ClassVar[dict[str, Any]] = {
        "id": "full",
        "image": "image",
        "entrypoint": ["a", "b"],
        "created_at": NOW.isoformat(),
        "expires_at": (FULL.expires_at or NOW).isoformat(),
        "env": FULL.spec.env,
        "metadata": FULL.metadata,
        "extensions": FULL.extensions,
        "platform": ["linux", "amd64"],
        "resources": {"cpus": 0.5, "memory_bytes": 1, "pids": 2, "disk_bytes": 3, "tpus": 2},
        "isolation": "gvisor",
        "has_network": False,
        "is_readonly": True,
        "execd_token": "t",
        "secure_token": "s",
        "has_answered": True,
        "is_repeatable": True,
        "colour": ["blue"],
    }
    """As version 1 wrote it, with fields that a later server of that version may have added."""

    def at_version_1(self, path: Path, **rows: str) -> None:
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            migrations.migrate(db, migrations.SQLITE_STEPS[:1])
            for name, text in rows.items():
                db.execute("INSERT INTO sandboxes VALUES (?, ?)", (name, text))
            db.execute("INSERT INTO events VALUES (7, 'full', 1.5, 'Created', 'image')")
            db.execute(
                "INSERT INTO idempotency VALUES ('key', 'print', 'full', ?)", (NOW.timestamp(),)
            )

    async def test_columns_have_what_was_one_text(self, tmp_path: Path) -> None:
        self.at_version_1(tmp_path / "store.db", full=json.dumps(self.FLAT))
        beside = read_file(tmp_path / "store.db")
        async with open_sqlite(tmp_path / "store.db") as store:
            (read,) = await store.query(Query())
            assert beside == {"full": read}
            assert read.others == {"colour": ["blue"], "spec": {"resources": {"tpus": 2}}}
            resources = replace(FULL.spec.resources, gpus=None)
            spec = replace(FULL.spec, resources=resources, hostname=None)
            former = replace(FULL, spec=spec, owner="", state="", state_at=None)
            assert replace(read, others={}) == former
            assert [event.at for event in await store.events("full", 9)] == [1.5]
            assert await store.key("", "key") == UsedKey("", "key", "print", "full")

    @pytest.mark.parametrize(
        "text",
        [
            '{"id": 1',
            '{"id": 1}',
            "[]",
            json.dumps(FLAT | {"id": "another"}),
            json.dumps(FLAT | {"created_at": "yesterday"}),
            json.dumps(FLAT | {"entrypoint": 5}),
            json.dumps({name: value for name, value in FLAT.items() if name != "image"}),
        ],
    )
    async def test_a_row_that_nobody_can_read_stays(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "store.db"
        self.at_version_1(path, full=text)
        assert isinstance(read_file(path)["full"], NotUnderstood)
        async with open_sqlite(path, data_dir_id="one") as store:
            assert await store.query(Query()) == []
            await store.belong(["full"])
        assert isinstance(read_file(path)["full"], NotUnderstood)

    async def test_a_step_that_fails_leaves_the_version_before(self, tmp_path: Path) -> None:
        path = tmp_path / "store.db"
        self.at_version_1(path, full=json.dumps(self.FLAT))

        def fail(db: sqlite3.Connection) -> None:
            migrations.SQLITE_STEPS[1](db)
            raise sqlite3.OperationalError("the disk is full")

        before = path.read_bytes()
        with contextlib.closing(sqlite3.connect(path)) as db:
            with pytest.raises(sqlite3.OperationalError):
                migrations.migrate(db, (migrations.SQLITE_STEPS[0], fail))
            assert db.execute("PRAGMA user_version").fetchone() == (1,)
            assert db.execute("SELECT count(wanted) FROM sandboxes").fetchone() == (1,)
        assert path.read_bytes() == before

    async def test_secrets_of_the_former_form_are_not_left_in_the_file(
        self, tmp_path: Path
    ) -> None:
        path, secret = tmp_path / "store.db", "a-secret-that-is-nowhere-else"
        self.at_version_1(path, full=json.dumps(self.FLAT | {"env": {"PASSWORD": secret}}))
        async with open_sqlite(path) as store:
            await store.delete("full")
        assert secret.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
