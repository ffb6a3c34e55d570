# SPDX-License-Identifier: Apache-2.0
"""Plays a recorded exchange of ``specs/exchanges`` back over real HTTP, and checks every request.

What a client asks to find a sandbox (endpoints, ping, client metrics) is answered whenever it
comes: clients differ there. Everything else must come as recorded, in order.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

EXCHANGES = Path(__file__).parents[3] / "specs" / "exchanges"
API_KEY = "key-of-the-tests"
TOKENS = {
    "44772": ("execd", {"X-EXECD-ACCESS-TOKEN": "execd-token"}),
    "18080": ("egress", {"OPENSANDBOX-EGRESS-AUTH": "egress-token"}),
}
_ENDPOINT = re.compile(r"/v1/sandboxes/([^/]+)/endpoints/(44772|18080)")


@dataclass
class Answer:
    """One answer, ready to send."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Replay:
    """The exchange of one name, and how far it is."""

    expected: list[dict[str, Any]]
    domain: str = ""
    faults: list[str] = field(default_factory=list)
    """What came otherwise than recorded."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        """Answer a request, and note where it is not the recorded one."""
        url = urlsplit(target)
        if (found := self._answer_discovery(url.path)) is not None:
            return found
        with self._lock:
            if not self.expected:
                self.faults.append(f"{method} {target}: nothing more was expected")
                return Answer(500)
            exchange = self.expected.pop(0)
        wanted = exchange["request"]
        seen = {"method": method, "path": url.path, "query": parse_qsl(url.query)}
        for name, value in seen.items():
            self._compare(f"{method} {target}: {name}", value, _wanted(wanted, name))
        for name, value in wanted["headers"].items():
            self._compare(f"{method} {target}: {name}", headers.get(name.lower()), value)
        content = json.loads(body) if body else None
        self._compare(f"{method} {target}: body", content, wanted.get("body"))
        return _answer(exchange["answer"])

    def _answer_discovery(self, path: str) -> Answer | None:
        if found := _ENDPOINT.fullmatch(path):
            place, token = TOKENS[found[2]]
            origin = {"OPEN-SANDBOX-ORIGIN": "template"} if found[1].startswith("fsb-") else {}
            endpoint = {"endpoint": f"{self.domain}/{place}", "headers": token}
            return Answer(200, json.dumps(endpoint).encode(), origin)
        return {"/execd/ping": Answer(200), "/v1/metrics/events": Answer(204)}.get(path)

    def _compare(self, what: str, seen: object, wanted: object) -> None:
        if seen != wanted:
            self.faults.append(f"{what}: {seen!r}, recorded {wanted!r}")


def _wanted(request: dict[str, Any], name: str) -> object:
    if name == "query":
        return [tuple(pair) for pair in request.get("query", [])]
    return request[name]


def _answer(recorded: dict[str, Any]) -> Answer:
    headers = {"Content-Type": "application/json", **recorded.get("headers", {})}
    if "events" in recorded:
        frames = (json.dumps(event) + "\n\n" for event in recorded["events"])
        headers["Content-Type"] = "text/event-stream"
        return Answer(recorded["status"], "".join(frames).encode(), headers)
    if "text" in recorded:
        return Answer(recorded["status"], recorded["text"].encode(), headers)
    body = json.dumps(recorded["body"]).encode() if "body" in recorded else b""
    return Answer(recorded["status"], body, headers)


def _handler(replay: Replay) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = replay.answer(self.command, self.path, headers, body)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status != 204:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _handle  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def replaying(name: str) -> Iterator[Replay]:
    """Serve the exchange on a free port; when the block ends all of it must have happened."""
    replay = Replay(json.loads((EXCHANGES / f"{name}.json").read_text())["exchanges"])
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(replay)) as server:
        server.daemon_threads = True
        replay.domain = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield replay
        finally:
            server.shutdown()
            thread.join()
    replay.faults += [f"never came: {left['request']}" for left in replay.expected]
    assert not replay.faults, "\n".join(replay.faults)
