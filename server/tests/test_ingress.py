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
from opensandbox_server.ingress.config import IngressConfig
from opensandbox_server.ingress.ingress import Ingress, open_ingress
from opensandbox_server.ingress.routes import Route
from tests.harness.wait import eventually_async

pytestmark = pytest.mark.anyio


@dataclass
class Supervised:
    """A stand-in for ingress and what it heard."""

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
async def stand_in(tmp_path: Path) -> AsyncIterator[Supervised]:
    """Take a program that stands in for ingress; the test opens it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plan = IngressConfig(make_program(tmp_path), listener, tmp_path, {"domain": "localhost"})
        activity: list[Mapping[str, int]] = []
        yield Supervised(Ingress(plan), tmp_path / "standin.py.heard", activity)


def route(name: str, **changes: Any) -> Route:
    return Route(name, tcp="127.0.0.1:1", execd_token="t", **changes)  # noqa: S106


async def test_routes_of_before_are_its_first_table(stand_in: Supervised) -> None:
    await stand_in.ingress.put(route("a"))
    await stand_in.ingress.put(route("b"))
    await stand_in.ingress.delete("b")
    async with open_ingress(stand_in.ingress, stand_in.activity.append):
        config, table = stand_in.heard()
        assert (config["op"], config["domain"]) == ("config", "localhost")
        assert table["op"] == "replace"
        assert [each["id"] for each in table["routes"]] == ["a"]


async def test_a_route_is_in_force_when_put_returns(stand_in: Supervised, tmp_path: Path) -> None:
    async with open_ingress(stand_in.ingress, stand_in.activity.append):
        inside = Route("a", socket=tmp_path / "sandboxes/a/execd.sock", secure_token="s")  # noqa: S106
        await stand_in.ingress.put(inside)
        assert stand_in.heard()[-1]["route"] == {
            "id": "a",
            "socket": "/proc/self/fd/5/sandboxes/a/execd.sock",
            "tcp": "",
            "state": "running",
            "execdToken": "",
            "secureToken": "s",
            "egress": "",
        }
        await stand_in.ingress.put(route("a", is_paused=True))
        assert stand_in.heard()[-1]["route"]["state"] == "paused"
        await stand_in.ingress.delete("a")
        await stand_in.ingress.delete("a")
        assert stand_in.operations() == ["config", "replace", "put", "put", "delete"]


async def test_many_routes_at_once_are_all_told(stand_in: Supervised) -> None:
    async with open_ingress(stand_in.ingress, stand_in.activity.append):
        await asyncio.gather(*(stand_in.ingress.put(route(str(number))) for number in range(200)))
        assert len(stand_in.heard()) == 202


async def test_after_a_crash_the_next_one_gets_the_whole_table_and_no_caller_notices(
    stand_in: Supervised,
) -> None:
    async with open_ingress(stand_in.ingress, stand_in.activity.append):
        await stand_in.ingress.put(route("a"))
        await stand_in.ingress.put(route("dies"))
        assert stand_in.operations() == [
            "config",
            "replace",
            "put",
            "put",
            "config",
            "replace",
            "put",
        ]
        table = stand_in.heard()[5]
        assert {each["id"] for each in table["routes"]} == {"a", "dies"}


async def test_a_program_that_is_away_for_a_while_is_started_once_it_is_back(
    stand_in: Supervised, caplog: pytest.LogCaptureFixture
) -> None:
    program = stand_in.heard_by.with_name("ingress")
    async with open_ingress(stand_in.ingress, stand_in.activity.append):
        away = program.rename(program.with_name("away"))
        dying = asyncio.create_task(stand_in.ingress.put(route("dies")))
        await eventually_async(lambda: "No such file" in caplog.text)
        assert not stand_in.ingress.is_open
        away.rename(program)
        await dying
        assert stand_in.ingress.is_open
        assert [each["id"] for each in stand_in.heard()[-2]["routes"]] == ["dies"]


async def test_a_report_that_cannot_be_taken_in_ends_only_that_life(tmp_path: Path) -> None:
    reports: list[Mapping[str, int]] = []

    def take(activity: Mapping[str, int]) -> None:
        reports.append(activity)
        if len(reports) == 1:
            raise KeyError("busy")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        ingress = Ingress(IngressConfig(make_program(tmp_path), listener, tmp_path, {}))
        async with open_ingress(ingress, take):
            await ingress.put(route("busy"))
            assert ingress.is_open
            await ingress.put(route("busy"))
            assert len(reports) > 1


async def test_a_refused_route_is_ingress_that_is_unavailable(stand_in: Supervised) -> None:
    async with open_ingress(stand_in.ingress, stand_in.activity.append):
        with pytest.raises(IngressUnavailable, match="not this one"):
            await stand_in.ingress.put(route("refused"))


async def test_activity_is_passed_on(stand_in: Supervised) -> None:
    async with open_ingress(stand_in.ingress, stand_in.activity.append):
        await stand_in.ingress.put(route("busy"))
        assert stand_in.activity == [{"busy": 123}]


async def test_a_program_that_ends_at_once_is_one_clear_error(tmp_path: Path) -> None:
    program = tmp_path / "ingress"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ingress = Ingress(IngressConfig(program, listener, tmp_path, {}))
        with pytest.raises(StartupError, match=r"ingress .*status 7"):
            async with open_ingress(ingress, lambda _: None):
                pass


async def test_a_program_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ingress = Ingress(IngressConfig(tmp_path / "nothing", listener, tmp_path, {}))
        with pytest.raises(StartupError, match="ingress cannot be started: No such file"):
            async with open_ingress(ingress, lambda _: None):
                pass


async def test_nothing_is_left_of_a_closed_ingress(stand_in: Supervised) -> None:
    async with open_ingress(stand_in.ingress, stand_in.activity.append):
        pass
    assert _children() == []


def _children() -> list[str]:
    names = []
    for listing in Path("/proc/self/task").glob("*/children"):
        for pid in listing.read_text().split():
            with contextlib.suppress(FileNotFoundError):
                names.append(Path(f"/proc/{pid}/cmdline").read_text())
    return [name for name in names if "standin" in name]
