# SPDX-License-Identifier: Apache-2.0
"""Nothing that is not understood is deleted: neither what runs nor what lies beside it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opensandbox_server.runtimes.base import InstanceState
from opensandbox_server.runtimes.oci.launcher.records import (
    VERSION,
    NotUnderstood,
    Record,
    read_record,
    start_ticks,
    survey,
    write_record,
)
from opensandbox_server.runtimes.oci.runtime import cgroup_parent
from server.tests.oci.traces import cgroups_named
from tests.harness.runtime import Box, Home, find_execd, opened_home

RECORD = Record("one", "host", 5, "/socket", "crun", 1.5, "one", pid=7, boot="b")


def written(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "one").mkdir()
    write_record(tmp_path / "one", RECORD)
    fields: dict[str, Any] = json.loads((tmp_path / "one" / "state.json").read_text())
    return fields


def test_a_record_is_read_as_it_was_written_and_says_its_version(tmp_path: Path) -> None:
    fields = written(tmp_path)
    assert fields["version"] == VERSION
    assert read_record(json.dumps(fields)) == RECORD


def test_a_record_without_a_version_is_of_the_first(tmp_path: Path) -> None:
    fields = written(tmp_path)
    del fields["version"]
    assert read_record(json.dumps(fields)) == RECORD


def test_what_another_version_wrote_beside_is_kept(tmp_path: Path) -> None:
    fields = written(tmp_path) | {"colour": {"deep": ["blue"]}}
    record = read_record(json.dumps(fields))
    record.has_ended = True
    write_record(tmp_path / "one", record)
    again = json.loads((tmp_path / "one" / "state.json").read_text())
    assert again == fields | {"has_ended": True}


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda fields: {**fields, "version": VERSION + 1}, "version"),
        (lambda fields: {**fields, "version": "new"}, "version"),
        (lambda fields: {**fields, "slot": "five"}, "slot"),
        (lambda fields: {**fields, "pid": None}, "pid"),
        (lambda fields: {name: fields[name] for name in fields if name != "cgroup"}, "cgroup"),
        (lambda _: [], "damaged"),
        (lambda _: "text", "damaged"),
    ],
)
def test_a_record_of_another_shape_is_not_understood(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], object], why: str
) -> None:
    with pytest.raises(NotUnderstood, match=why):
        read_record(json.dumps(spoil(written(tmp_path))))


def test_only_what_a_start_left_and_nothing_runs_in_may_go(tmp_path: Path) -> None:
    for made in (".ahead-5/upper", "cut-off/upper/etc", "busy/upper", "backup/2026", "a.b/upper"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "link").symlink_to("cut-off")
    (tmp_path / "copy").mkdir()
    write_record(tmp_path / "copy", RECORD)
    (tmp_path / "garbled").mkdir()
    (tmp_path / "garbled" / "state.json").write_bytes(b"\xff\xff{")
    (tmp_path / "strange" / "state.json").mkdir(parents=True)
    found = {entry.name: seen for entry, seen in survey(tmp_path, lambda name: name == "busy")}
    may_go = {name for name, seen in found.items() if seen is None}
    assert may_go == {".ahead-5", "cut-off"}
    assert all(isinstance(seen, NotUnderstood) for seen in found.values() if seen)
    sandboxes = {n for n, seen in found.items() if getattr(seen, "is_sandbox", False)}
    assert sandboxes == {"busy", "garbled", "strange"}


def spoil_version(record: Path) -> None:
    record.write_text(json.dumps(json.loads(record.read_text()) | {"version": VERSION + 1}))


def test_a_running_sandbox_is_not_ended_because_its_record_cannot_be_read(
    network: int, tmp_path: Path
) -> None:
    assert network >= 0
    data, execd = tmp_path / "home", find_execd()
    assert execd
    names = ("unknown-field", "newer", "damaged", "unmade")
    with closing(data, execd) as home:
        boxes = {name: home.start(id=name) for name in names}
    records = {name: data / "sandboxes" / name / "state.json" for name in boxes}
    pids = {name: json.loads(record.read_text())["pid"] for name, record in records.items()}
    newer = records["newer"].read_text()
    known = json.loads(records["unknown-field"].read_text())
    records["unknown-field"].write_text(json.dumps({"x": 1} | known))
    spoil_version(records["newer"])
    records["damaged"].write_text("{")
    unmade = json.loads(records["unmade"].read_text())
    records["unmade"].write_text(json.dumps(unmade | {"pid": 0}))
    (data / "sandboxes" / "backup").mkdir()
    (data / "sandboxes" / "backup" / "of-mine").write_text("x")
    with closing(data, execd) as home:
        seen = {instance.id: instance for instance in home.run(home.runtime.instances())}
        assert {name: instance.state for name, instance in seen.items()} == {
            "unknown-field": InstanceState.RUNNING,
            "newer": InstanceState.EXITED,
            "damaged": InstanceState.EXITED,
        }
        assert "version" in seen["newer"].reason
        assert "damaged" in seen["damaged"].reason
        assert Box(home, seen["unknown-field"]).sh("echo alive").output == "alive"
        for name in ("newer", "damaged"):
            assert boxes[name].sh("echo alive").output == "alive"
        assert not start_ticks(pids["unmade"])  # nobody was told of it
        assert owner(data, home.start()) not in {owner(data, boxes[n]) for n in pids if n in seen}
        home.run(home.runtime.stop("damaged"))  # its owner may still ask for that
        assert not start_ticks(pids["damaged"])
    records["newer"].write_text(newer)
    with opened_home(data) as home:
        (again,) = (i for i in home.run(home.runtime.instances()) if i.id == "newer")
        assert again.state is InstanceState.RUNNING
    assert [entry.name for entry in (data / "sandboxes").iterdir()] == ["backup"]
    assert not any(parent.exists() for parent in cgroups_named(cgroup_parent(data)))


@contextlib.contextmanager
def closing(data: Path, execd: Path) -> Iterator[Home]:
    """Open a runtime and close it again; sandboxes run on."""
    home = Home(data, {"slots_ahead": 3}, execd)
    home.open()
    try:
        yield home
    finally:
        home.close()


def owner(data: Path, box: Box) -> int:
    return (data / "sandboxes" / box.id / "upper").stat().st_uid
