# SPDX-License-Identifier: Apache-2.0
"""Log lines: JSON that programs can read, with the ids of what they are about and no secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from opensandbox_server.settings.sections import Log
from opensandbox_server.telemetry.context import about
from opensandbox_server.telemetry.logs import JsonFormatter, set_up_logs
from opensandbox_server.telemetry.spans import Trace, begin
from server.tests.world import World, create_request
from tests.harness.server import API_KEY, serving

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"
SENT = {"X-Request-ID": "request-1", "traceparent": TRACEPARENT}
ACCESS = "opensandbox_server.access"
CLIENT = "httpx"  # the test's own, in the same process


class Lines(logging.Handler):
    """Keeps what is logged, as the log would have it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        assert "\n" not in text
        self.lines.append(json.loads(text))

    def of(self, logger: str) -> list[dict[str, Any]]:
        """Return the lines of one logger."""
        return [line for line in self.lines if line["logger"] == logger]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Listen to everything that is logged."""
    root, access, handler = logging.getLogger(), logging.getLogger(ACCESS), Lines()
    before = root.level, access.level
    root.addHandler(handler)
    root.setLevel("DEBUG")
    access.setLevel("INFO")
    yield handler
    root.removeHandler(handler)
    root.setLevel(before[0])
    access.setLevel(before[1])


def test_a_line_has_its_time_level_logger_and_message(lines: Lines) -> None:
    logging.getLogger("a.logger").warning("%s of\n%d", "two lines", 2)
    (line,) = lines.lines
    age = datetime.now(UTC) - datetime.fromisoformat(line.pop("time"))
    assert 0 <= age.total_seconds() < 60
    assert line == {"level": "WARNING", "logger": "a.logger", "message": "two lines of\n2"}


def test_an_exception_is_a_field(lines: Lines) -> None:
    try:
        raise KeyError("what was looked for")
    except KeyError:
        logging.getLogger("a.logger").exception("it failed")
    (line,) = lines.lines
    assert line["message"] == "it failed"
    assert line["exception"].startswith("Traceback ")
    assert "KeyError: 'what was looked for'" in line["exception"]


def test_what_no_encoding_has_can_be_logged() -> None:
    # To the handler alone: pytest keeps what loggers get, and cannot send this to another process.
    text, handler = "a \udcff and a \x1b[2J", Lines()
    handler.handle(logging.LogRecord("a.logger", logging.WARNING, "", 0, text, None, None))
    assert handler.lines[0]["message"] == text


async def test_a_line_is_about_the_sandbox_and_request_of_its_own_task(lines: Lines) -> None:
    log = logging.getLogger("a.logger")

    async def work(name: str) -> None:
        begin(Trace(name))
        with about(f"sandbox of {name}"):
            await asyncio.sleep(0)
            log.info("inside")
        log.info("after")

    async def care() -> None:
        with about("nobody's"):
            await asyncio.sleep(0)
            log.info("care")
        log.info("rest")

    tasks = [asyncio.create_task(each) for each in (work("a"), work("b"), care())]
    await asyncio.gather(*tasks)
    told = [
        (line["message"], line.get("request_id"), line.get("sandbox_id"))
        for line in lines.of("a.logger")
    ]
    assert sorted(told, key=str) == [
        ("after", "a", "sandbox of a"),
        ("after", "b", "sandbox of b"),
        ("care", None, "nobody's"),
        ("inside", "a", "sandbox of a"),
        ("inside", "b", "sandbox of b"),
        ("rest", None, None),
    ]


@pytest.mark.parametrize("more", [{}, {"Idempotency-Key": "once"}], ids=["plain", "with a key"])
async def test_a_failed_create_is_told_with_all_its_ids(
    world: World, lines: Lines, more: dict[str, str]
) -> None:
    body = create_request(image={"uri": "broken"})
    answer = await world.client.post("/v1/sandboxes", json=body, headers={**SENT, **more})
    assert answer.status_code == 500
    (fault,) = lines.of("opensandbox_server.api.faults")
    (access,) = lines.of(ACCESS)
    for line in (fault, access):
        assert (line["request_id"], line["trace_id"]) == ("request-1", TRACE)
        assert len(line["sandbox_id"]) == 36
    assert "StartFault" in fault["exception"]
    assert (access["method"], access["path"], access["status"]) == ("POST", "/v1/sandboxes", 500)
    assert access["ms"] > 0


async def test_the_access_line_names_a_sandbox_that_there_is(world: World, lines: Lines) -> None:
    headers = {"Idempotency-Key": "once"}
    for _ in range(2):
        answer = await world.client.post("/v1/sandboxes", json=create_request(), headers=headers)
    sandbox_id = answer.json()["id"]
    await world.client.get(f"/v1/sandboxes/{sandbox_id}/endpoints/80")
    await world.client.post(f"/v1/sandboxes/{sandbox_id}/resume")
    await world.client.get("/v1/sandboxes/nobody")
    await world.client.get("/v1/sandboxes")
    found = [(line["status"], line.get("sandbox_id")) for line in lines.of(ACCESS)]
    known = [(status, sandbox_id) for status in (202, 202, 200, 409)]
    assert found == [*known, (404, None), (200, None)]


async def test_nothing_that_is_secret_is_logged(world: World, lines: Lines) -> None:
    auth = {"username": "u", "password": "password-of-mine"}
    env = {"NAME": "value-of-mine"}
    made = await world.create(env=env, secureAccess=True, image={"uri": "i", "auth": auth})
    route = world.routes.table[made["id"]]
    for image in ("broken", "unknown"):
        body = create_request(image={"uri": image, "auth": auth}, env=env)
        assert (await world.client.post("/v1/sandboxes", json=body)).status_code == 500
    await world.client.get("/v1/sandboxes", headers={"OPEN-SANDBOX-API-KEY": "key-of-mine"})
    await world.client.get("/v1/sandboxes?metadata=query-of-mine")
    text = json.dumps([line for line in lines.lines if line["logger"] != CLIENT])
    assert len(lines.of(ACCESS)) == 5
    for secret in ("of-mine", "a key of the tests", route.execd_token, route.secure_token):
        assert secret not in text


async def test_a_path_writes_no_line_of_its_own(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", ACCESS)
    await world.client.get("/v1/sandboxes/a%0A2026-01-01%20INFO%20forged")
    (message,) = [record.getMessage() for record in caplog.records if record.name == ACCESS]
    assert message.startswith("GET /v1/sandboxes/a%0A2026-01-01%20INFO%20forged 404 ")


def test_a_server_that_is_told_to_writes_nothing_but_json(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[log]\nformat = "json"\nlevel = "DEBUG"\n')
    flags = ("--runtime", "fake", "--stop-sandboxes", "--config", str(config))
    with serving(tmp_path / "data", *flags) as server:
        with server.client() as client:
            answer = client.post("/sandboxes", json=create_request(), headers=SENT)
            assert answer.status_code == 202, answer.text
        httpx.get(f"{server.url}/v1/sandboxes/nobody", headers={"OPEN-SANDBOX-API-KEY": "other"})
        assert server.end() == 0
        found = [json.loads(line) for line in server.log.splitlines()]
    access = [line for line in found if line.get("logger") == ACCESS]
    assert [line["status"] for line in access] == [202, 401]
    assert (access[0]["request_id"], access[0]["trace_id"]) == ("request-1", TRACE)
    assert access[0]["sandbox_id"] == answer.json()["id"]
    assert "trace_id" not in access[1]
    assert API_KEY not in json.dumps(found)


@pytest.mark.parametrize("form", ["text", "json"])
def test_files_have_the_form_that_was_asked_for(tmp_path: Path, form: str) -> None:
    config = tmp_path / "config.toml"
    files = f'file_path = "{tmp_path}/s.log"\naccess_file_path = "{tmp_path}/a.log"\n'
    config.write_text(f'[log]\nformat = "{form}"\nfile_enabled = true\n{files}')
    flags = ("--runtime", "fake", "--config", str(config))
    with serving(tmp_path / "data", *flags) as server, server.client() as client:
        client.get("/sandboxes", headers=SENT)
    told, access = (tmp_path / "s.log").read_text(), (tmp_path / "a.log").read_text()
    if form == "json":
        assert all(json.loads(line)["message"] for line in told.splitlines())
        assert json.loads(access)["request_id"] == "request-1"
    else:
        assert " INFO opensandbox_server.serve listening on " in told
        assert f"request=request-1 trace={TRACE}\n" in access


def test_text_is_what_nobody_has_to_ask_for(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        set_up_logs(Log())
        logging.getLogger("a.logger").error("a line")
        sys.stderr.flush()
        assert capsys.readouterr().err.endswith(" ERROR a.logger a line\n")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
