# SPDX-License-Identifier: Apache-2.0
"""What every release stored is still understood, and nothing of it is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from opensandbox import SandboxManagerSync
from opensandbox.models import SandboxFilter
from opensandbox_server.runtimes.oci.images import ImageStore
from opensandbox_server.runtimes.oci.launcher.records import Record, survey
from opensandbox_server.store.sqlite import open_sqlite
from opensandbox_server.store.store import Query
from tests.harness.server import make_home, obstacle, run_server
from tests.stored.release import STORE, Release, releases

pytestmark = pytest.mark.anyio
EVERY_RELEASE = pytest.mark.parametrize("release", releases(), ids=lambda one: one.directory.name)


@pytest.fixture
def data(release: Release, tmp_path: Path) -> Path:
    """A data directory as the release left it."""
    release.lay_out(tmp_path / "data")
    return tmp_path / "data"


@EVERY_RELEASE
async def test_the_store_is_read(release: Release, data: Path) -> None:
    async with open_sqlite(data / STORE, data_dir_id=(data / "id").read_text().strip()) as store:
        found = {stored.id: stored for stored in await store.query(Query())}
        events = {name: [event.kind for event in await store.events(name, 9)] for name in found}
    assert found.keys() == release.expected.keys()
    for name, expected in release.expected.items():
        stored = found[name]
        assert stored.spec.image == expected["image"]
        assert list(stored.spec.entrypoint) == expected["entrypoint"]
        assert dict(stored.metadata) == expected["metadata"]
        expires = stored.expires_at.isoformat() if stored.expires_at else None
        assert expires == expected["expires_at"]
        assert events[name][:2] == ["Created", "Started"]
        assert len(stored.execd_token) == 32


@EVERY_RELEASE
def test_records_are_read(release: Release, data: Path) -> None:
    found = dict(survey(data / "sandboxes", runs=lambda _: False))
    assert {directory.name for directory in found} == release.expected.keys()
    for directory, record in found.items():
        assert isinstance(record, Record), record
        was_over = release.expected[directory.name]["was"] == "ended"
        assert (record.has_ended, record.exit_code) == ((True, 3) if was_over else (False, None))


@EVERY_RELEASE
async def test_images_are_there(data: Path) -> None:
    image = await ImageStore(data).resolve("small")
    assert (image.rootfs / "hello").read_text() == "hello\n"


@EVERY_RELEASE
def test_a_server_starts_on_it_and_loses_no_sandbox(release: Release) -> None:
    if reason := obstacle("oci"):
        pytest.skip(reason)
    with make_home() as home:
        release.lay_out(home / "data")
        with (
            run_server("oci", home) as server,
            SandboxManagerSync.create(server.sync_config) as manager,
        ):
            infos = manager.list_sandbox_infos(SandboxFilter(page_size=200)).sandbox_infos
            # Their processes ended with the machine they ran on; that is told, not forgotten.
            assert {info.id for info in infos} == release.expected.keys()
            assert {info.status.state for info in infos} <= {"Failed", "Terminated"}
            assert all((home / "data" / "sandboxes" / info.id).is_dir() for info in infos)
