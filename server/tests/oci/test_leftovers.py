# SPDX-License-Identifier: Apache-2.0
"""`opensandbox-server leftovers`: an operator decides about what the server leaves as it is."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from opensandbox_server.cli import main
from opensandbox_server.runtimes.oci.launcher.records import VERSION, start_ticks
from server.tests.oci.traces import wait_for_empty_trash
from server.tests.world import create_request
from tests.harness.server import NotServing, Serving, serving

OCI = ("--runtime", "oci")


def create(server: Serving) -> str:
    with server.client() as client:
        answer = client.post("/sandboxes", json=create_request(image={"uri": "host"}))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def ping(server: Serving, sandbox_id: str) -> int:
    with server.client() as client:
        return client.get(f"/sandboxes/{sandbox_id}/proxy/44772/ping").status_code


def forget(data: Path, sandbox_id: str) -> None:
    with contextlib.closing(sqlite3.connect(data / "opensandbox.db")) as db, db:
        db.execute("DELETE FROM sandboxes WHERE id = ?", (sandbox_id,))


def test_leftovers_are_listed_adopted_and_dropped(
    network: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert network >= 0
    data = tmp_path / "data"

    def leftovers(*words: str) -> str:
        with contextlib.suppress(SystemExit):
            main(["leftovers", words[0], "--data-dir", str(data), *words[1:]])
        return "".join(capsys.readouterr())

    with serving(data, *OCI) as server:
        damaged, newer, unknown, dropped = (create(server) for _ in range(4))
        assert "in use by another server" in leftovers("drop", damaged)
        assert leftovers("list") == "nothing is left over\n"
    records = {
        name: data / "sandboxes" / name / "state.json"
        for name in (damaged, newer, unknown, dropped)
    }
    known = {name: json.loads(record.read_text()) for name, record in records.items()}
    records[damaged].write_text('{"image": "host", "pid"')
    records[newer].write_text(json.dumps(known[newer] | {"version": VERSION + 1, "pid": "p7"}))
    for name in (unknown, dropped):
        forget(data, name)
    (data / "sandboxes" / "backup.old").mkdir()
    shown = leftovers("list")
    for name in records:
        assert f"{name:<40} yes" in shown, shown
    assert "backup.old" in shown
    assert "no such leftover" in leftovers("drop", "nothing")
    assert "no sandbox that could be adopted" in leftovers("adopt", "backup.old")
    assert leftovers("adopt", damaged, newer, unknown).count("adopted") == 3
    assert leftovers("drop", dropped, "backup.old").count("dropped") == 2
    assert not start_ticks(known[dropped]["pid"])
    assert leftovers("list") == "nothing is left over\n"
    with serving(data, *OCI, "--stop-sandboxes") as server:
        assert [ping(server, name) for name in (damaged, newer)] == [200, 200]
        with server.client() as client:
            seen = client.get(f"/sandboxes/{unknown}").json()
            assert seen["status"]["state"] == "Running"
        assert start_ticks(known[unknown]["pid"]) == known[unknown]["start_ticks"]
        wait_for_empty_trash(data)
    assert list((data / "sandboxes").iterdir()) == []


def test_without_its_store_nothing_is_ended_and_the_refusal_says_what_to_do(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    data = tmp_path / "data"
    with serving(data, *OCI) as server:
        sandbox_id = create(server)
    kept = (data / "opensandbox.db").rename(tmp_path / "moved.db")
    with pytest.raises(NotServing, match="put back theirs") as refusal:
        serving(data, *OCI).__enter__()
    assert str(refusal.value).count("\n") == 1
    kept.rename(data / "opensandbox.db")
    with serving(data, *OCI, "--stop-sandboxes") as server:
        assert ping(server, sandbox_id) == 200
