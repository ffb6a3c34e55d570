# SPDX-License-Identifier: Apache-2.0
"""Stands in for a lifecycle server: real HTTP, sandboxes that are all one execd, and a memory.

What a test wants answered instead is put into ``answers``; everything asked is in ``requests``.
`answering` is the HTTP of it, for whoever has other answers.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

API_KEY = "key-of-the-tests"


@dataclass
class Answer:
    """One answer, prepared."""

    status: int
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    is_cut: bool = False
    """Hang up instead of answering."""

    @property
    def content(self) -> bytes:
        """What is sent after the headers."""
        if self.raw is not None:
            return self.raw
        return b"" if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Request:
    """One request, as it arrived."""

    method: str
    target: str
    headers: Message
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query, in its order."""
        return parse_qsl(urlsplit(self.target).query)

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


@dataclass
class StandIn:
    """The server a test speaks to."""

    domain: str = ""
    api_key: str = API_KEY
    """What clients must send; empty when it does not matter."""
    execd: dict[str, Any] = field(default_factory=dict)
    """The endpoint of every sandbox's execd."""
    carries_endpoints: bool = True
    state: str = "Running"
    """What a create answers."""
    answers: deque[Answer] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)
    sandboxes: dict[str, dict[str, Any]] = field(default_factory=dict)
    silent: threading.Event = field(default_factory=threading.Event)
    """While set, nobody is answered."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def asked(self, method: str, ending: str = "") -> list[Request]:
        """Return the requests of a method whose path ends so."""
        return [r for r in self.requests if r.method == method and r.path.endswith(ending)]

    def respond(self, request: Request) -> Answer:
        """Answer, but not while it is silent."""
        answer = self.answer(request)
        while self.silent.is_set():
            time.sleep(0.01)
        return replace(answer, headers={"X-Request-ID": "r-1", **answer.headers})

    def answer(self, request: Request) -> Answer:
        """Answer as prepared, else as a lifecycle server would."""
        with self._lock:
            self.requests.append(request)
            if self.answers:
                return self.answers.popleft()
            if request.path.startswith("/asleep/"):
                return Answer(503, {"code": "UNKNOWN", "message": "asleep"})
            if self.api_key not in ("", request.headers.get("OPEN-SANDBOX-API-KEY")):
                return Answer(401, {"code": "INVALID_API_KEY", "message": "wrong key"})
            return self._route(request, request.path.removeprefix("/v1").strip("/").split("/"))

    def _route(self, request: Request, parts: list[str]) -> Answer:
        match request.method, parts:
            case "POST", ["sandboxes"]:
                return self._create(request.json)
            case "GET", ["sandboxes"]:
                return self._list()
            case "POST", ["metrics", "events"]:
                return Answer(204)
            case _, ["sandboxes", sandbox_id, *_] if sandbox_id not in self.sandboxes:
                return Answer(404, {"code": "OCI::SANDBOX_NOT_FOUND", "message": "no such sandbox"})
            case _, ["sandboxes", sandbox_id, *rest]:
                return self._one(request, self.sandboxes[sandbox_id], rest)
        return Answer(404, {"code": "GENERAL::UNKNOWN_ERROR", "message": "no such route"})

    def _create(self, request: dict[str, Any]) -> Answer:
        now = datetime.now(UTC)
        sandbox = {
            "id": f"sandbox-{len(self.sandboxes) + 1}",
            "status": {"state": self.state},
            "entrypoint": request.get("entrypoint", []),
            "createdAt": now.isoformat(),
            "metadata": request.get("metadata", {}),
        }
        if request.get("timeout"):
            sandbox["expiresAt"] = (now + timedelta(seconds=request["timeout"])).isoformat()
        self.sandboxes[sandbox["id"]] = sandbox
        endpoints = {"endpoints": {"44772": self.execd}} if self.carries_endpoints else {}
        return Answer(202, {**sandbox, **endpoints})

    def _list(self) -> Answer:
        items = list(reversed(self.sandboxes.values()))
        pagination = {
            "page": 1,
            "pageSize": 20,
            "totalItems": len(items),
            "totalPages": 1 if items else 0,
            "hasNextPage": False,
        }
        return Answer(200, {"items": items, "pagination": pagination})

    def _one(self, request: Request, sandbox: dict[str, Any], rest: list[str]) -> Answer:
        match request.method, rest:
            case "GET", []:
                return Answer(200, sandbox)
            case "DELETE", []:
                del self.sandboxes[sandbox["id"]]
                return Answer(204)
            case "POST", ["pause" | "resume" as verb]:
                sandbox["status"] = {"state": "Paused" if verb == "pause" else "Running"}
                return Answer(202)
            case "POST", ["renew-expiration"]:
                sandbox["expiresAt"] = request.json["expiresAt"]
                return Answer(200, {"expiresAt": sandbox["expiresAt"]})
            case "PATCH", ["metadata"]:
                merged = {**sandbox["metadata"], **request.json}
                sandbox["metadata"] = {k: v for k, v in merged.items() if v is not None}
                return Answer(200, sandbox)
            case "GET", ["endpoints", "44772"]:
                return Answer(200, self.execd)
            case "GET", ["endpoints", port]:
                return Answer(200, {"endpoint": f"{self.domain}/{sandbox['id']}/{port}"})
            case "GET", ["diagnostics", kind]:
                return Answer(200, _diagnostics(sandbox["id"], kind, request.query["scope"][0]))
        return Answer(404, {"code": "GENERAL::UNKNOWN_ERROR", "message": "no such route"})


def _diagnostics(sandbox_id: str, kind: str, scope: str) -> dict[str, Any]:
    return {
        "sandboxId": sandbox_id,
        "kind": kind,
        "scope": scope,
        "delivery": "inline",
        "contentType": "text/plain; charset=utf-8",
        "truncated": False,
        "content": "hello\n",
        "contentLength": 6,
    }


@contextmanager
def run_standin(**settings: Any) -> Iterator[StandIn]:
    """Serve on a free port until the block ends."""
    standin = StandIn(**settings)
    with answering(standin.respond) as standin.domain:
        yield standin


@contextmanager
def answering(answer: Callable[[Request], Answer]) -> Iterator[str]:
    """Answer every request on a free port until the block ends; yields host:port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answered = answer(Request(self.command, self.path, self.headers, body))
            if answered.is_cut:
                self.close_connection = True
                return
            self.send_response(answered.status)
            for name, value in answered.headers.items():
                self.send_header(name, value)
            if answered.status != 204:
                self.send_header("Content-Length", str(len(answered.content)))
            with suppress(BrokenPipeError, ConnectionResetError):  # the client may be gone
                self.end_headers()
                self.wfile.write(answered.content)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _handle  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
