# SPDX-License-Identifier: Apache-2.0
"""The supervisor of ingress: every route reaches it, also the next one after it died."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from opensandbox_server.errors import IngressUnavailable, StartupError
from opensandbox_server.ingress.ingress import Ingress, IngressConfig, Route, open_ingress

pytestmark = pytest.mark.anyio


@dataclass
class Door:
    """A supervised stand-in and what it heard."""

    ingress: Ingress
    heard_by: Path
    activity: list[Mapping[str, int]] = field(default_factory=list)

    def heard(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.heard_by.read_text().splitlines()]

    def operations(self) -> list[str]:
        return [message["op"] for message in self.heard()]


def make_program(directory: Path) -> Path:
    script = directory / "standin.py"
    shutil.copy(Path(__file__).with_name("standin_ingress.py"), script)
    program = directory / "ingress"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    """Plan a door; the test opens it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plan = IngressConfig(make_program(tmp_path), listener, tmp_path, {"domain": "localhost"})
        activity: list[Mapping[str, int]] = []
        yield Door(Ingress(plan, activity.append), tmp_path / "standin.py.heard", activity)


def route(name: str, **changes: Any) -> Route:
    return Route(name, tcp="127.0.0.1:1", execd_token="t", **changes)  # noqa: S106


async def test_routes_of_before_are_its_first_table(door: Door) -> None:
    await door.ingress.put(route("a"))
    await door.ingress.put(route("b"))
    await door.ingress.delete("b")
    async with open_ingress(door.ingress):
        config, table = door.heard()
        assert (config["op"], config["domain"]) == ("config", "localhost")
        assert table["op"] == "replace"
        assert [each["id"] for each in table["routes"]] == ["a"]


async def test_a_route_is_in_force_when_put_returns(door: Door, tmp_path: Path) -> None:
    async with open_ingress(door.ingress):
        inside = Route("a", socket=tmp_path / "sandboxes/a/execd.sock", secure_token="s")  # noqa: S106
        await door.ingress.put(inside)
        assert door.heard()[-1]["route"] == {
            "id": "a",
            "socket": "/proc/self/fd/5/sandboxes/a/execd.sock",
            "tcp": "",
            "state": "running",
            "execdToken": "",
            "secureToken": "s",
            "egress": "",
        }
        await door.ingress.put(route("a", is_paused=True))
        assert door.heard()[-1]["route"]["state"] == "paused"
        await door.ingress.delete("a")
        await door.ingress.delete("a")
        assert door.operations() == ["config", "replace", "put", "put", "delete"]


async def test_many_routes_at_once_are_all_told(door: Door) -> None:
    async with open_ingress(door.ingress):
        await asyncio.gather(*(door.ingress.put(route(str(number))) for number in range(200)))
        assert len(door.heard()) == 202


async def test_after_a_crash_the_next_one_gets_the_whole_table_and_no_caller_notices(
    door: Door,
) -> None:
    async with open_ingress(door.ingress):
        await door.ingress.put(route("a"))
        await door.ingress.put(route("dies"))
        assert door.operations() == ["config", "replace", "put", "put", "config", "replace", "put"]
        table = door.heard()[5]
        assert {each["id"] for each in table["routes"]} == {"a", "dies"}


async def test_a_program_that_is_away_for_a_while_is_started_once_it_is_back(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    program = door.heard_by.with_name("ingress")
    async with open_ingress(door.ingress), asyncio.timeout(20):
        away = program.rename(program.with_name("away"))
        dying = asyncio.create_task(door.ingress.put(route("dies")))
        while "No such file" not in caplog.text:
            await asyncio.sleep(0.01)
        assert not door.ingress.is_open
        away.rename(program)
        await dying
        assert door.ingress.is_open
        assert [each["id"] for each in door.heard()[-2]["routes"]] == ["dies"]


async def test_a_report_that_cannot_be_taken_in_ends_only_that_life(tmp_path: Path) -> None:
    reports: list[Mapping[str, int]] = []

    def take(activity: Mapping[str, int]) -> None:
        reports.append(activity)
        if len(reports) == 1:
            raise KeyError("busy")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        ingress = Ingress(IngressConfig(make_program(tmp_path), listener, tmp_path, {}), take)
        async with open_ingress(ingress):
            await ingress.put(route("busy"))
            assert ingress.is_open
            await ingress.put(route("busy"))
            assert len(reports) > 1


async def test_a_refused_route_is_a_closed_door(door: Door) -> None:
    async with open_ingress(door.ingress):
        with pytest.raises(IngressUnavailable, match="not this one"):
            await door.ingress.put(route("refused"))


async def test_activity_is_passed_on(door: Door) -> None:
    async with open_ingress(door.ingress):
        await door.ingress.put(route("busy"))
        assert door.activity == [{"busy": 123}]


async def test_a_program_that_ends_at_once_is_one_clear_error(tmp_path: Path) -> None:
    program = tmp_path / "ingress"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ingress = Ingress(IngressConfig(program, listener, tmp_path, {}), lambda _: None)
        with pytest.raises(StartupError, match=r"ingress .*status 7"):
            async with open_ingress(ingress):
                pass


async def test_a_program_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ingress = Ingress(
            IngressConfig(tmp_path / "nothing", listener, tmp_path, {}), lambda _: None
        )
        with pytest.raises(StartupError, match="ingress cannot be started: No such file"):
            async with open_ingress(ingress):
                pass


async def test_nothing_is_left_of_a_closed_door(door: Door) -> None:
    async with open_ingress(door.ingress):
        pass
    assert _children() == []


def _children() -> list[str]:
    names = []
    for listing in Path("/proc/self/task").glob("*/children"):
        for pid in listing.read_text().split():
            with contextlib.suppress(FileNotFoundError):
                names.append(Path(f"/proc/{pid}/cmdline").read_text())
    return [name for name in names if "standin" in name]
