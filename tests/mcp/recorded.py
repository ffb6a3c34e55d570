# SPDX-License-Identifier: Apache-2.0
"""An OpenSandbox server that answers as recorded in ``specs/exchanges``, in any order.

For calls whose server side comes later. A request that is not one of the recorded ones is refused.
"""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from sdks.python.tests.replay import EXCHANGES

SANDBOX = "5e5b1d0c-8d6a-4f0e-9d3b-6f1c2a3b4c5d"
SNAPSHOT = "0d9f7c1e-2b3a-4c5d-8e6f-7a8b9c0d1e2f"
NAMES = ("snapshots", "restore", "egress")

_ENDPOINT = re.compile(r"/v1/sandboxes/[^/]+/endpoints/(44772|18080)(\?.*)?")
_PLACES = {"44772": "execd", "18080": "egress"}

Answer = tuple[int, Any]


@dataclass(frozen=True)
class Question:
    """A request, as far as an answer depends on it."""

    method: str
    target: str
    body: Any = None

    @classmethod
    def recorded(cls, request: dict[str, Any]) -> "Question":
        """Read one of the recordings."""
        query = "&".join("=".join(pair) for pair in request.get("query", []))
        target = f"{request['path']}?{query}" if query else request["path"]
        return cls(request["method"], target, request.get("body"))


def _exchanges() -> Iterator[tuple[Question, Answer]]:
    for name in NAMES:
        for exchange in json.loads((EXCHANGES / f"{name}.json").read_text())["exchanges"]:
            answer = exchange["answer"]
            yield Question.recorded(exchange["request"]), (answer["status"], answer.get("body"))


@dataclass
class Recorded:
    """What was asked so far, and where to ask."""

    domain: str = ""
    asked: list[Question] = field(default_factory=list)
    """Every request that was recorded."""
    exchanges: list[tuple[Question, Answer]] = field(default_factory=lambda: list(_exchanges()))

    def answer(self, question: Question) -> Answer:
        """Return the recorded answer."""
        if (found := self._answer_discovery(question)) is not None:
            return found
        for recorded, answer in self.exchanges:
            if recorded == question:
                self.asked.append(question)
                return answer
        return 404, {"code": "NOT_RECORDED", "message": str(question)}

    def _answer_discovery(self, question: Question) -> Answer | None:
        """Answer what a client asks to find a sandbox; clients differ there."""
        if found := _ENDPOINT.fullmatch(question.target):
            return 200, {"endpoint": f"{self.domain}/{_PLACES[found[1]]}", "headers": {}}
        if question == Question("GET", f"/v1/sandboxes/{SANDBOX}"):
            return next(a for q, a in self.exchanges if q.target == "/v1/sandboxes")
        return {"/execd/ping": (200, {}), "/v1/metrics/events": (204, None)}.get(question.target)


@contextlib.contextmanager
def run_recorded() -> Iterator[Recorded]:
    """Serve the recorded answers on a free port."""
    recorded = Recorded()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(sent) if sent else None
            status, answer = recorded.answer(Question(self.command, _decoded(self.path), body))
            content = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_request  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        recorded.domain = f"127.0.0.1:{server.server_port}"
        serving = threading.Thread(target=server.serve_forever, name="recorded")
        serving.start()
        try:
            yield recorded
        finally:
            server.shutdown()
            serving.join()


def _decoded(target: str) -> str:
    url = urlsplit(target)
    query = "&".join("=".join(pair) for pair in parse_qsl(url.query))
    return f"{url.path}?{query}" if query else url.path
