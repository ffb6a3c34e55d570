# SPDX-License-Identifier: Apache-2.0
"""A small client that hides nothing: requests go out as they are written in the tests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import httpx

EXECD_PORT = 44772
PATIENCE_SECONDS = 20
"""How long something that happens by itself may take before a test fails."""


@dataclass
class Output:
    """What a command wrote and how it ended."""

    stdout: str
    stderr: str
    exit_code: int | None


class Api:
    """One server, one key, one image that has a shell."""

    def __init__(self, url: str, key: str, image: str) -> None:
        """Connect to nothing yet."""
        headers = {"OPEN-SANDBOX-API-KEY": key} if key else {}
        self.http = httpx.Client(base_url=f"{url}/v1", headers=headers, timeout=60)
        self.url = url
        self.image = image
        self._made: list[str] = []

    def close(self) -> None:
        """Delete what the test made and did not delete."""
        for sandbox_id in self._made:
            self.http.delete(f"/sandboxes/{sandbox_id}")
        self.http.close()

    def create_request(self, **changes: Any) -> dict[str, Any]:
        """Return a request that creates a sandbox; None takes a field away."""
        body: dict[str, Any] = {
            "image": {"uri": self.image},
            "entrypoint": ["tail", "-f", "/dev/null"],
            "timeout": 300,
            "resourceLimits": {"cpu": "1", "memory": "256Mi"},
        }
        return {key: value for key, value in (body | changes).items() if value is not None}

    def post(self, body: dict[str, Any], **headers: str) -> httpx.Response:
        """Ask for a sandbox; what is made is deleted after the test."""
        answer = self.http.post("/sandboxes", json=body, headers=headers)
        if answer.status_code == 202:
            self._made.append(answer.json()["id"])
        return answer

    def create(self, **changes: Any) -> Box:
        """Create a sandbox that must succeed."""
        answer = self.post(self.create_request(**changes))
        assert answer.status_code == 202, answer.text
        return Box(self, answer.json())


class Box:
    """One sandbox, reached as a client in direct mode does: by endpoint and headers."""

    def __init__(self, api: Api, created: dict[str, Any]) -> None:
        """Take the answer of create."""
        self.api = api
        self.created = created
        self.id: str = created["id"]
        self.path = f"/sandboxes/{self.id}"

    def info(self) -> dict[str, Any]:
        """Ask for it."""
        answer = self.api.http.get(self.path)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    @property
    def state(self) -> str:
        """What it is now."""
        found: str = self.info()["status"]["state"]
        return found

    def endpoint(self, port: int, **query: Any) -> dict[str, Any]:
        """Ask for the way to a port."""
        answer = self.api.http.get(f"{self.path}/endpoints/{port}", params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def reach(self, method: str, port: int, path: str, **request: Any) -> httpx.Response:
        """Send a request to a port by its endpoint."""
        way = self.endpoint(port)
        headers = way.get("headers", {}) | request.pop("headers", {})
        url = f"http://{way['endpoint']}{path}"
        return httpx.request(method, url, headers=headers, timeout=60, **request)

    def execd(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request to execd."""
        return self.reach(method, EXECD_PORT, path, **request)

    def run(self, command: str, **fields: Any) -> Output:
        """Run a command to its end."""
        answer = self.execd("POST", "/command", json={"command": command, **fields})
        assert answer.status_code == 200, answer.text
        return read_output(answer.text)

    def pause(self) -> Self:
        """Freeze it."""
        assert self.api.http.post(f"{self.path}/pause").status_code == 202
        return self


def read_output(stream: str) -> Output:
    """Fold the events of one run."""
    events = [json.loads(frame) for frame in stream.split("\n\n") if frame.strip()]
    kinds: dict[str, list[str]] = {"stdout": [], "stderr": []}
    exit_code = None
    for event in events:
        if event["type"] in kinds:
            kinds[event["type"]].append(event["text"])
        elif event["type"] == "execution_complete":
            exit_code = 0
        elif event["type"] == "error":
            exit_code = int(event["error"]["evalue"])
    return Output("\n".join(kinds["stdout"]), "\n".join(kinds["stderr"]), exit_code)


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for something that happens by itself."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)
