# SPDX-License-Identifier: Apache-2.0
"""The store of several servers: what one client cannot show, and what an operator is told."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from opensandbox_server.errors import SettingsError, StartupError, StoreFault
from opensandbox_server.settings.sections import Postgresql
from opensandbox_server.settings.settings import load_settings
from opensandbox_server.store import postgres as postgres_store
from opensandbox_server.store import postgres_connection, postgres_listener, postgres_migrations
from opensandbox_server.store import postgres_statements as sql
from opensandbox_server.store import store as contract
from opensandbox_server.store.postgres import PostgresStore, open_postgres, read_place
from opensandbox_server.store.postgres_rows import write_row
from opensandbox_server.store.store import Query, Store, StoreConflict, UsedKey
from opensandbox_server.store.stored import COLUMNS, NotUnderstood
from server.tests import test_store_contract as contract_suite
from server.tests.databases import PostgresDatabase
from server.tests.store_script import VERBS, seen
from server.tests.test_cli import run
from server.tests.test_store_contract import BARE, FULL, NOW, ids, kinds, named
from server.tests.world import create_request
from tests.harness.postgres import PostgresServer
from tests.harness.server import serving

pytestmark = pytest.mark.anyio

SECRET = "a-secret-that-is-nowhere-else"  # noqa: S105
HASTY = Postgresql(connect_timeout_seconds=0.3, pool_timeout_seconds=0.5)


@pytest.fixture
def database(postgres: PostgresServer) -> PostgresDatabase:
    """Have an empty database."""
    return PostgresDatabase(postgres.new_schema())


@contextlib.asynccontextmanager
async def alone(
    database: PostgresDatabase, place: str = "one", options: Postgresql | None = None
) -> AsyncIterator[PostgresStore]:
    """Open a place for one server."""
    async with open_postgres(database.url, place, is_exclusive=True, options=options) as store:
        yield store


async def eventually(is_so: object, seconds: float = 20) -> None:
    """Wait until a function says yes."""
    assert callable(is_so)
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(0.02)


class TestPlaces:
    """Several servers in one database."""

    async def test_servers_of_different_places_see_nothing_of_each_other(
        self, database: PostgresDatabase
    ) -> None:
        key = UsedKey("", "key", "print", "bare")
        async with alone(database, "one") as one, alone(database, "two") as two:
            assert not one.is_shared
            position = (await two.changes(None)).position
            await one.insert(BARE, key)
            assert await ids(two) == []
            assert await two.get("bare") is None
            assert await two.key("", "key") is None
            await two.insert(replace(BARE, owner="two"), key)
            await one.update(BARE, 1, "Changed")
            await one.delete("bare", frees_key=True)
            assert await kinds(two, "bare") == ["Created"]
            assert await two.key("", "key") == key
            news = await two.changes(position)
            assert ([each.owner for each in news.changed], news.gone) == (["two"], set())

    async def test_a_place_that_is_not_shared_has_one_server(
        self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(postgres_listener, "HOLD_SECONDS", 0)
        async with alone(database):
            with pytest.raises(StartupError, match="in use by another server"):
                await alone(database).__aenter__()
        async with alone(database):
            pass

    async def test_a_killed_server_leaves_its_place_at_once(
        self, database: PostgresDatabase
    ) -> None:
        code = (
            "import asyncio, sys; from opensandbox_server.store.postgres import open_postgres\n"
            "async def hold():\n"
            "    async with open_postgres(sys.argv[1], 'one', is_exclusive=True):\n"
            "        print('open', flush=True); await asyncio.sleep(600)\n"
            "asyncio.run(hold())"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, database.url], stdout=subprocess.PIPE
        ) as server:
            assert server.stdout
            assert await asyncio.to_thread(server.stdout.readline) == b"open\n"
            server.kill()
            async with alone(database) as store:
                await store.insert(BARE)

    async def test_it_is_taken_again_when_the_connection_was_lost(
        self, database: PostgresDatabase
    ) -> None:
        async with alone(database) as store:
            recovering = asyncio.create_task(_recover(store))
            holders = "SELECT pid FROM pg_locks WHERE locktype = 'advisory'"
            ((pid,),) = database.fetch(holders)
            position = (await store.changes(None)).position
            database.fetch("SELECT pg_terminate_backend(%s)", pid)
            await asyncio.wait_for(store.changed(), 10)
            await eventually(lambda: [row for row in database.fetch(holders) if row != (pid,)])
            await eventually(lambda: not store.trouble)
            assert (await store.changes(position)).is_whole
            recovering.cancel()

    async def test_nothing_is_written_while_another_server_has_it(
        self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(postgres_listener, "HOLD_SECONDS", 0)
        thief = await asyncpg.connect(database.url)
        async with alone(database) as store:
            holders = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
            ((pid,),) = database.fetch(holders)
            waiting = asyncio.create_task(thief.fetch(sql.HOLD.replace("try_", ""), "one"))
            await asyncio.sleep(0.1)
            database.fetch("SELECT pg_terminate_backend(%s)", pid)
            await waiting
            await eventually(lambda: "in use by another server" in store.trouble)
            with pytest.raises(StoreFault, match="in use by another server"):
                await store.insert(BARE)
            await thief.close()
            await eventually(lambda: not store._listener.refusal)
            await store.insert(BARE)

    async def test_data_directories_belong_to_their_places(
        self, database: PostgresDatabase
    ) -> None:
        async with alone(database, "one") as store:
            await store.belong([])
        async with alone(database, "one") as store:
            await store.belong(["whoever"])
        async with alone(database, "two") as store:
            with pytest.raises(StartupError, match="knows none of the 1 sandboxes"):
                await store.belong(["whoever"])


async def _recover(store: Store) -> None:
    while True:
        with contextlib.suppress(StoreFault):
            await store.recover()
        await asyncio.sleep(0.05)


class TestDue:
    """Who ends what expired, of several servers."""

    async def test_one_of_many_gets_it(self, database: PostgresDatabase) -> None:
        async with database.open() as one, database.open() as two, database.open() as three:
            await one.insert(replace(BARE, expires_at=NOW, has_answered=True))
            answers = await asyncio.gather(*(each.due("bare") for each in (one, two, three)))
            assert sorted(answers)[0] == 0
            assert all(0 < each < 2 * contract.LEASE_SECONDS for each in sorted(answers)[1:])
            winner = (one, two, three)[answers.index(0)]
            assert await winner.due("bare") == 0
            found = await one.get("bare")
            assert found
            assert found.revision == 3
            with pytest.raises(StoreConflict):
                await two.update(replace(BARE, expires_at=None), 1, "Renewed")

    async def test_a_lease_ends(
        self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(contract, "LEASE_SECONDS", 0.3)
        async with database.open() as one, database.open() as two:
            position = (await two.changes(None)).position
            await one.insert(replace(BARE, expires_at=NOW, has_answered=True))
            assert await one.due("bare") == 0
            assert [each.revision for each in (await two.changes(position)).changed] == [2]
            if (left := await two.due("bare")) > 0:
                assert left <= 0.3
                await asyncio.sleep(left + 0.01)
                assert await two.due("bare") == 0

    async def test_what_is_not_over_is_asked_for_later(self, database: PostgresDatabase) -> None:
        now = datetime.now(UTC)
        later = now + timedelta(hours=1)
        async with database.open() as store:
            await store.insert(named("runs", expires_at=later, has_answered=True))
            assert 3300 < await store.due("runs") <= 3600
            await store.insert(named("starts", expires_at=later, created_at=now))
            assert 600 < await store.due("starts") <= contract.START_SECONDS
            await store.insert(named("stays", has_answered=True))
            assert await store.due("stays") > 0
            cut_off = NOW - timedelta(seconds=contract.START_SECONDS)
            await store.insert(named("cut off", created_at=cut_off, expires_at=later))
            assert await store.due("cut off") == 0
            assert {each.revision for each in await store.query(Query())} == {1, 2}


class TestChanges:
    """What makes a change be seen, or everything."""

    async def test_who_began_first_and_committed_last_is_not_missed(
        self, database: PostgresDatabase
    ) -> None:
        async with database.open() as store:
            position = (await store.changes(None)).position
            slow = await asyncpg.connect(database.url)
            row = write_row(named("slow"))
            async with slow.transaction():
                await slow.fetch(
                    sql.INSERT, "shared", *(row[name] for name in COLUMNS), NOW, "image"
                )
                await store.insert(named("fast"))
                news = await store.changes(position)
                assert [each.id for each in news.changed] == ["fast"]
            await slow.close()
            news = await store.changes(news.position)
            assert [each.id for each in news.changed] == ["slow"]
            assert not news.is_whole
            assert (await store.changes(news.position)).changed == []

    async def test_eight_writers_that_commit_in_any_order(self, database: PostgresDatabase) -> None:
        async with database.open():
            pass
        database.execute(
            "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN PERFORM pg_sleep(random() / 100); RETURN NULL; END'"
        )
        database.execute(
            "CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT OR UPDATE OR DELETE ON sandboxes"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION dawdle()"
        )
        await contract_suite.TestChanges().test_eight_writers_at_once_and_none_is_missed(database)

    async def test_who_is_too_far_behind_reads_everything(
        self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with database.open() as store:
            await store.insert(BARE)
            before = (await store.changes(None)).position
            await store.insert(FULL)
            await store.delete("bare")
            news = await store.changes(before)
            assert (news.gone, news.is_whole) == ({"bare"}, False)
            monkeypatch.setattr(postgres_store, "DELETIONS_SECONDS", -1)
            upkeep = asyncio.create_task(store.upkeep())
            await eventually(lambda: not database.fetch("SELECT 1 FROM deletions"))
            upkeep.cancel()
            late = await store.changes(before)
            assert (late.is_whole, [each.id for each in late.changed]) == (True, ["full"])
            assert not (await store.changes(late.position)).is_whole

    async def test_a_restored_dump_has_no_transactions_of_another_time(
        self, database: PostgresDatabase
    ) -> None:
        async with database.open() as store:
            await store.insert(BARE)
        database.execute("UPDATE sandboxes SET changed = '999999999999'")
        database.execute("UPDATE places SET pruned = '999999999999'")
        async with database.open() as store:
            first = await store.changes((await store.changes(None)).position)
            assert (first.changed, first.is_whole) == ([], False)


class TestLosses:
    """A client, the server or the network goes in the middle of something."""

    async def test_killed_at_any_statement_it_leaves_whole_verbs(
        self, database: PostgresDatabase
    ) -> None:
        async with open_postgres(database.url, "whole", is_exclusive=False) as store:
            whole = [await seen(store)]
            for verb in VERBS:
                await verb(store)
                whole.append(await seen(store))
            script = [sys.executable, "-m", "server.tests.store_script", database.url]
            done = await asyncio.to_thread(subprocess.run, script)
            assert done.returncode == 0
            for number in range(1, len(VERBS) + 1):
                store._place = str(number)
                assert whole.index(await seen(store)) in (number - 1, number)
                async with asyncio.timeout(3):  # nobody holds what it had
                    await store.delete("a", frees_key=True)
                    await store.delete("b", frees_key=True)
                    for verb in VERBS:
                        await verb(store)

    async def test_a_restart_is_survived(
        self, postgres: PostgresServer, database: PostgresDatabase
    ) -> None:
        async with alone(database, options=HASTY) as store:
            await store.insert(BARE)
            position = (await store.changes(None)).position
            recovering = asyncio.create_task(_recover(store))
            postgres.stop()
            try:
                for verb in (store.get("bare"), store.insert(FULL), store.changes(position)):
                    with pytest.raises(StoreFault, match="cannot be used"):
                        await verb
                assert store.trouble
                async with asyncio.timeout(5):
                    await store.changed()
            finally:
                postgres.start()
            await eventually(lambda: not store.trouble)
            await store.insert(FULL)
            news = await store.changes(position)
            assert {each.id for each in news.changed} == {"bare", "full"}
            assert news.is_whole
            waiting = asyncio.create_task(store.changed())
            await store.delete("bare")
            await asyncio.wait_for(waiting, 10)
            recovering.cancel()

    async def test_a_crash_leaves_whole_verbs_and_all_that_was_answered(
        self, postgres: PostgresServer, database: PostgresDatabase
    ) -> None:
        answered: dict[str, int] = {}

        async def write(store: Store, writer: str) -> None:
            with contextlib.suppress(StoreFault):
                for number in range(10_000):
                    made = named(f"{writer}-{number}")
                    await store.insert(made)
                    answered[made.id] = 1
                    answered[made.id] = await store.update(made, 1, "Changed")

        async with database.open() as store:
            writers = [asyncio.create_task(write(store, f"w{n}")) for n in range(4)]
            await eventually(lambda: len(answered) > 40)
            postgres.kill()
            await asyncio.gather(*writers)
            postgres.start()  # in this thread, with which it ends
            found = {each.id: each.revision for each in await store.query(Query())}
            assert {
                name: found.get(name, 0) >= revision for name, revision in answered.items()
            } == (dict.fromkeys(answered, True))
            assert len(found) <= len(answered) + 4
            events = database.fetch("SELECT sandbox_id, count(*) FROM events GROUP BY sandbox_id")
            assert dict(events) == found

    async def test_a_database_that_says_nothing_keeps_nobody(
        self,
        postgres: PostgresServer,
        database: PostgresDatabase,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(postgres_connection, "ANSWER_SECONDS", 0.3)
        monkeypatch.setattr(postgres_listener, "LOOK_SECONDS", 0.2)
        async with alone(database, options=HASTY) as store:
            await store.insert(BARE)
            recovering = asyncio.create_task(_recover(store))
            with postgres.frozen():
                began = time.monotonic()
                for verb in (store.get("bare"), store.insert(FULL), store.changes(None)):
                    with pytest.raises(StoreFault):
                        await verb
                assert time.monotonic() - began < 10
                await eventually(lambda: not store._listener.is_connected)
            await eventually(lambda: not store.trouble)
            assert await store.get("bare") == BARE
            recovering.cancel()

    async def test_who_holds_a_row_is_not_waited_for_without_end(
        self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(postgres_connection._SETTINGS, "lock_timeout", "200ms")
        async with database.open() as store:
            await store.insert(BARE)
            other = await asyncpg.connect(database.url)
            async with other.transaction():
                await other.execute("SELECT FROM sandboxes FOR UPDATE")
                with pytest.raises(StoreFault, match="lock timeout"):
                    await store.update(BARE, 1, "Changed")
            await store.update(BARE, 1, "Changed")
            await other.close()


class TestTexts:
    """What PostgreSQL cannot have in a text."""

    async def test_strange_questions_find_nothing_and_break_nothing(
        self, database: PostgresDatabase
    ) -> None:
        async with database.open() as store:
            await store.insert(BARE)
            for strange in ("\x00", "bare\x00", "\ud800"):
                assert await store.get(strange) is None
                assert await store.events(strange, 9) == []
                assert await ids(store, states=[strange]) == []
                assert await ids(store, metadata={strange: strange}) == []
                assert await store.key(strange, strange) is None
                await store.delete(strange)
            await store.note("bare", "Said", "a\x00b\ud800")
            assert (await store.events("bare", 1))[0].message == "a\u2400b\\ud800"
            assert store.trouble == ""


class TestOpening:
    """What an operator is told."""

    async def test_many_begin_at_once_with_nothing(self, database: PostgresDatabase) -> None:
        async def begin(number: int) -> None:
            async with open_postgres(database.url, str(number), is_exclusive=True) as store:
                await store.insert(BARE)

        await asyncio.gather(*(begin(number) for number in range(5)))
        assert database.fetch("SELECT count(*) FROM sandboxes") == [(5,)]

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (("guarded@", f"guarded:{SECRET}@"), "password authentication failed.*PGPASSFILE"),
            (("guarded@", "nobody@"), 'role "nobody" does not exist.*store.url'),
            (("guarded@/postgres", "postgres@/none"), '"none" does not exist; .*createdb'),
            (("guarded@", "weak@"), "permission denied for schema .*GRANT CREATE"),
            (("/postgres-0", "/nowhere"), "cannot use the database .*PostgreSQL runs there"),
            (("postgresql://guarded@", f"postgresql://x:{SECRET}"), "store.url: cannot be under"),
        ],
    )
    async def test_what_is_wrong_and_what_to_do(
        self, postgres: PostgresServer, tmp_path: Path, change: tuple[str, str], said: str
    ) -> None:
        postgres.execute(
            "DROP ROLE IF EXISTS guarded, weak; CREATE ROLE weak LOGIN;"
            "CREATE ROLE guarded LOGIN PASSWORD 'another'"
        )
        link = tmp_path / "postgres-0"
        link.symlink_to(postgres.directory)
        url = postgres.url("guarded").replace(str(postgres.directory), str(link))
        with pytest.raises(StartupError) as refused:
            await open_postgres(url.replace(*change), "one", is_exclusive=True).__aenter__()
        assert re.search(said, str(refused.value))
        assert SECRET not in "".join(traceback.format_exception(refused.value))

    async def test_a_password_may_come_from_a_file(
        self, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        postgres.execute(
            "DROP ROLE IF EXISTS guarded; CREATE ROLE guarded LOGIN PASSWORD 'right';"
            "DROP SCHEMA IF EXISTS guarded; CREATE SCHEMA guarded AUTHORIZATION guarded"
        )
        passwords = tmp_path / "pgpass"
        passwords.write_text("*:*:*:guarded:right\n")
        passwords.chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(passwords))
        url = postgres.url("guarded", search_path="guarded")
        async with open_postgres(url, "one", is_exclusive=True) as store:
            await store.insert(BARE)
        postgres.execute("DROP SCHEMA guarded CASCADE")

    async def test_other_versions_are_refused(
        self, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with alone(database):
            pass
        database.execute("UPDATE schema_version SET version = 99")
        with pytest.raises(StartupError, match="written by a newer version"):
            await alone(database).__aenter__()
        with pytest.raises(StartupError, match="written by a newer version"):
            await read_place(database.url, "one")
        monkeypatch.setattr(postgres_connection, "OLDEST_VERSION", 99)
        with pytest.raises(StartupError, match=r"is PostgreSQL \d+\.\d+; the store needs 99"):
            await alone(database).__aenter__()

    async def test_a_step_that_fails_leaves_the_version_before(
        self, database: PostgresDatabase
    ) -> None:
        steps = (*postgres_migrations.POSTGRES_STEPS, "DROP TABLE events; SELECT 1 / 0")
        db = await asyncpg.connect(database.url)
        with pytest.raises(asyncpg.DivisionByZeroError):
            await postgres_migrations.migrate(db, steps)
        assert await postgres_migrations.version_of(db) == 1
        await db.execute("SELECT FROM events")
        await db.close()

    async def test_rows_are_read_beside_a_server(self, database: PostgresDatabase) -> None:
        assert await read_place(database.url, "one") == {}
        async with alone(database, "one") as one, alone(database, "two") as two:
            await one.insert(BARE)
            await one.insert(FULL)
            await two.insert(named("other"))
            database.spoil("full")
            rows = await read_place(database.url, "one")
        assert rows.keys() == {"bare", "full"}
        assert rows["bare"] == BARE
        assert isinstance(rows["full"], NotUnderstood)


def test_sandboxes_outlive_a_server_and_leftovers_are_found(
    database: PostgresDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, data = tmp_path / "config.toml", tmp_path / "data"
    url = database.url.replace("postgres@", f"postgres:{SECRET}@")
    config.write_text(f'[runtime]\ntype = "fake"\n[store]\ntype = "postgresql"\nurl = "{url}"\n')
    with serving(data, "--config", str(config)) as server:
        with server.client() as client:
            made = client.post("/sandboxes", json=create_request())
            assert made.status_code == 202, made.text
        server.end(signal.SIGKILL)
        assert SECRET not in server.log
    with serving(data, "--config", str(config), "--stop-sandboxes") as server:
        with server.client() as client:
            found = client.get(f"/sandboxes/{made.json()['id']}").json()
            assert found["status"]["state"] == "Running"
        where = ("--config", str(config), "--data-dir", str(data))
        assert run("leftovers", "list", *where) == 0
        assert capsys.readouterr().out == "nothing is left over\n"
        database.spoil(found["id"])
        assert run("leftovers", "list", *where) == 0
        assert found["id"] in capsys.readouterr().out


def test_a_server_without_its_database_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    url = f"postgresql://u:{SECRET}@/db?host={tmp_path}"
    config.write_text(f'[server]\nport = 0\n[store]\ntype = "postgres"\nurl = "{url}"\n')
    words = ("--runtime", "fake", "--config", str(config), "--data-dir", str(tmp_path / "data"))
    assert run(*words) == 1
    said = capsys.readouterr().err
    assert re.search("cannot use the database db at this machine.*PostgreSQL runs there", said)
    assert SECRET not in said


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://u@h/db", "must be like postgresql://"),
        (f"postgresql://u:12/{SECRET}@h/db", "must have / .* of a password as %2F"),
        (f"postgresql://u:{SECRET}#@h/db", "must have / .* of a password as %2F"),
    ],
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, url: str, said: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[store]\ntype = "postgres"\nurl = "{url}"\n')
    with pytest.raises(SettingsError, match=said) as refused:
        load_settings(config, {})
    assert SECRET not in str(refused.value)


def test_an_address_is_not_shown(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[store]\ntype = "postgresql"\nurl = "postgresql://u:{SECRET}@h/db"\n')
    settings = load_settings(config, {})
    assert settings.store.type == "postgres"
    assert SECRET in settings.store_url
    assert SECRET not in repr(settings)
    more = load_settings(config, {"OPENSANDBOX_STORE_POSTGRESQL_DSN": "postgresql://other/db"})
    assert more.store_url == "postgresql://other/db"


def test_the_driver_is_asked_for_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opensandbox_server.store.postgres", None)
    config = tmp_path / "config.toml"
    config.write_text('[store]\ntype = "postgres"\nurl = "postgresql://h/db"\n')
    where = ("--config", str(config), "--data-dir", str(tmp_path))
    assert run("leftovers", "list", *where) == 1
    assert "pip install 'opensandbox-server[postgres]'" in capsys.readouterr().err
