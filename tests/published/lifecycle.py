# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the lifecycle API: one sandbox, whose execd is a daemon that already runs.

Only what the published client asks for between creating a sandbox and talking to its daemon. The
server of a later part replaces it.
"""

import http.server
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

SANDBOX_ID = "5e5b1d0c-8d6a-4f0e-9d3b-6f1c2a3b4c5d"
SANDBOX = {
    "id": SANDBOX_ID,
    "status": {"state": "Running"},
    "createdAt": "2026-01-01T00:00:00Z",
    "entrypoint": [],
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers the routes under /v1."""

    protocol_version = "HTTP/1.1"
    execd: str  # host:port, set by serving

    def do_POST(self) -> None:
        """Create the sandbox; take whatever metrics the client reports."""
        self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == "/v1/sandboxes":
            self.answer(HTTPStatus.ACCEPTED, SANDBOX)
        else:
            self.answer(HTTPStatus.OK, {})

    def do_GET(self) -> None:
        """Tell of the sandbox, or the endpoint of one of its ports."""
        path = self.path.partition("?")[0]
        if path == f"/v1/sandboxes/{SANDBOX_ID}":
            self.answer(HTTPStatus.OK, SANDBOX)
        elif re.fullmatch(rf"/v1/sandboxes/{SANDBOX_ID}/endpoints/(44772|18080)", path):
            self.answer(HTTPStatus.OK, {"endpoint": self.execd})
        else:
            missing = {"code": "OCI::SANDBOX_NOT_FOUND", "message": f"no {path}"}
            self.answer(HTTPStatus.NOT_FOUND, missing)

    def do_DELETE(self) -> None:
        """Pretend to end the sandbox; whoever started the daemon ends it."""
        self.answer(HTTPStatus.NO_CONTENT, None)

    def answer(self, status: HTTPStatus, body: object) -> None:
        """Send JSON, or nothing."""
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(execd: str) -> Iterator[str]:
    """Serve on loopback while the block runs; yields host:port."""
    handler = type("BoundHandler", (Handler,), {"execd": execd})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, name="lifecycle stand-in")
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
