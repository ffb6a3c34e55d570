# SPDX-License-Identifier: Apache-2.0
"""An OpenSandbox server of recorded answers, for calls whose server side comes later."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SANDBOX = "5e5b1d0c-8d6a-4f0e-9d3b-6f1c2a3b4c5d"
SNAPSHOT = "0d9f7c1e-2b3a-4c5d-8e6f-7a8b9c0d1e2f"
AT = "2026-01-02T03:04:05Z"

KEPT = {
    "id": SNAPSHOT,
    "sandboxId": SANDBOX,
    "name": "before",
    "status": {"state": "Ready"},
    "createdAt": AT,
}
RUNNING = {
    "id": SANDBOX,
    "status": {"state": "Running"},
    "entrypoint": ["tail", "-f", "/dev/null"],
    "expiresAt": AT,
    "createdAt": AT,
    "snapshotId": SNAPSHOT,
}
PAGE = {"page": 1, "pageSize": 20, "totalItems": 1, "totalPages": 1, "hasNextPage": False}
POLICY = {"defaultAction": "deny", "egress": [{"action": "allow", "target": "pypi.org"}]}

ANSWERS: dict[str, tuple[int, Any]] = {
    f"POST /v1/sandboxes/{SANDBOX}/snapshots": (202, KEPT),
    f"GET /v1/snapshots/{SNAPSHOT}": (200, KEPT),
    "GET /v1/snapshots": (200, {"items": [KEPT], "pagination": PAGE}),
    f"DELETE /v1/snapshots/{SNAPSHOT}": (204, None),
    "POST /v1/sandboxes": (202, RUNNING),
    f"GET /v1/sandboxes/{SANDBOX}": (200, RUNNING),
    "GET /execd/ping": (200, {}),
    "GET /egress/policy": (200, {"status": "ok", "policy": POLICY}),
    "PATCH /egress/policy": (200, {"status": "ok"}),
    "DELETE /egress/policy": (200, {"status": "ok"}),
}


@dataclass
class Recorded:
    """What was asked so far, and where to ask."""

    domain: str = ""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """Method and path, and the body."""

    def answer(self, question: str, body: Any) -> tuple[int, Any]:
        """Return the recorded answer."""
        self.asked.append((question, body))
        for port, name in (("44772", "execd"), ("18080", "egress")):
            if question == f"GET /v1/sandboxes/{SANDBOX}/endpoints/{port}":
                return 200, {"endpoint": f"{self.domain}/{name}", "headers": {}}
        return ANSWERS.get(question, (404, {"code": "NOT_RECORDED", "message": question}))


@contextlib.contextmanager
def run_recorded() -> Iterator[Recorded]:
    """Serve the recorded answers on a free port."""
    recorded = Recorded()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            question = f"{self.command} {self.path.partition('?')[0]}"
            status, body = recorded.answer(question, json.loads(sent) if sent else None)
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_request  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        recorded.domain = f"127.0.0.1:{server.server_port}"
        serving = threading.Thread(target=server.serve_forever, name="recorded")
        serving.start()
        try:
            yield recorded
        finally:
            server.shutdown()
            serving.join()
