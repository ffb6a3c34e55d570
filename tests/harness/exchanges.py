# SPDX-License-Identifier: Apache-2.0
"""Answers recorded in ``specs/exchanges``, over real HTTP: in their order, or in any.

What a client asks to find a sandbox (endpoints, ping, client metrics) is answered whenever it
comes: clients differ there.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.lifecycle import Answer, Request, answering

EXCHANGES = Path(__file__).parents[2] / "specs" / "exchanges"
API_KEY = "key-of-the-tests"
TOKENS = {
    "44772": ("execd", {"X-EXECD-ACCESS-TOKEN": "execd-token"}),
    "18080": ("egress", {"OPENSANDBOX-EGRESS-AUTH": "egress-token"}),
}
SANDBOX = "5e5b1d0c-8d6a-4f0e-9d3b-6f1c2a3b4c5d"
SNAPSHOT = "0d9f7c1e-2b3a-4c5d-8e6f-7a8b9c0d1e2f"
IN_ANY_ORDER = ("snapshots", "restore", "egress")
_ENDPOINT = re.compile(r"/v1/sandboxes/([^/]+)/endpoints/(44772|18080)")


def _read(name: str) -> list[dict[str, Any]]:
    exchanges: list[dict[str, Any]] = json.loads((EXCHANGES / f"{name}.json").read_text())[
        "exchanges"
    ]
    return exchanges


@dataclass
class Replay:
    """The exchange of one name, and how far it is."""

    expected: list[dict[str, Any]]
    domain: str = ""
    faults: list[str] = field(default_factory=list)
    """What came otherwise than recorded."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> Answer:
        """Answer a request, and note where it is not the recorded one."""
        if (found := _discovery(request.path, self.domain)) is not None:
            return found
        name = f"{request.method} {request.target}"
        with self._lock:
            if not self.expected:
                self.faults.append(f"{name}: nothing more was expected")
                return Answer(500)
            exchange = self.expected.pop(0)
        wanted = exchange["request"]
        query = [tuple(pair) for pair in wanted.get("query", [])]
        self._compare(f"{name}: method", request.method, wanted["method"])
        self._compare(f"{name}: path", request.path, wanted["path"])
        self._compare(f"{name}: query", request.pairs, query)
        for header, value in wanted["headers"].items():
            self._compare(f"{name}: {header}", request.headers.get(header), value)
        self._compare(f"{name}: body", request.json, wanted.get("body"))
        return _recorded_answer(exchange["answer"])

    def _compare(self, what: str, seen: object, wanted: object) -> None:
        if seen != wanted:
            self.faults.append(f"{what}: {seen!r}, recorded {wanted!r}")


@contextmanager
def replaying(name: str) -> Iterator[Replay]:
    """Serve the exchange on a free port; when the block ends all of it must have happened."""
    replay = Replay(_read(name))
    with answering(replay.answer) as replay.domain:
        yield replay
    replay.faults += [f"never came: {left['request']}" for left in replay.expected]
    assert not replay.faults, "\n".join(replay.faults)


@dataclass(frozen=True)
class Question:
    """A request, as far as an answer depends on it."""

    method: str
    target: str
    body: Any = None


def _question(method: str, path: str, query: list[Any], body: Any) -> Question:
    asked = "&".join("=".join(pair) for pair in query)
    return Question(method, f"{path}?{asked}" if asked else path, body)


def _exchanges() -> Iterator[tuple[Question, Answer]]:
    for name in IN_ANY_ORDER:
        for exchange in _read(name):
            asked = exchange["request"]
            question = _question(
                asked["method"], asked["path"], asked.get("query", []), asked.get("body")
            )
            yield question, _recorded_answer(exchange["answer"])


@dataclass
class Recorded:
    """A server that has recorded answers; a request that is not one of theirs is refused."""

    domain: str = ""
    asked: list[Question] = field(default_factory=list)
    """Every request that was recorded."""
    exchanges: list[tuple[Question, Answer]] = field(default_factory=lambda: list(_exchanges()))

    def answer(self, request: Request) -> Answer:
        """Return the recorded answer."""
        if (found := _discovery(request.path, self.domain)) is not None:
            return found
        question = _question(request.method, request.path, request.pairs, request.json)
        if question == Question("GET", f"/v1/sandboxes/{SANDBOX}"):
            return next(a for q, a in self.exchanges if q.target == "/v1/sandboxes")
        for recorded, answer in self.exchanges:
            if recorded == question:
                self.asked.append(question)
                return answer
        return Answer(404, {"code": "NOT_RECORDED", "message": str(question)})


@contextmanager
def run_recorded() -> Iterator[Recorded]:
    """Serve the recorded answers on a free port, in any order."""
    recorded = Recorded()
    with answering(recorded.answer) as recorded.domain:
        yield recorded


def _discovery(path: str, domain: str) -> Answer | None:
    if found := _ENDPOINT.fullmatch(path):
        place, token = TOKENS[found[2]]
        origin = {"OPEN-SANDBOX-ORIGIN": "template"} if found[1].startswith("fsb-") else {}
        return Answer(200, {"endpoint": f"{domain}/{place}", "headers": token}, origin)
    return {"/execd/ping": Answer(200), "/v1/metrics/events": Answer(204)}.get(path)


def _recorded_answer(recorded: dict[str, Any]) -> Answer:
    headers = {"Content-Type": "application/json", **recorded.get("headers", {})}
    if "events" in recorded:
        frames = (json.dumps(event) + "\n\n" for event in recorded["events"])
        headers["Content-Type"] = "text/event-stream"
        return Answer(recorded["status"], headers=headers, raw="".join(frames).encode())
    if "text" in recorded:
        return Answer(recorded["status"], headers=headers, raw=recorded["text"].encode())
    return Answer(recorded["status"], recorded.get("body"), headers)
