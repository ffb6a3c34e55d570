# SPDX-License-Identifier: Apache-2.0
"""Runs cells in code contexts of a real daemon."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.code.interpreters import surroundings
from tests.execd.events import Event, Execution, folded, frames
from tests.harness.execd import OWN, Daemon, run_daemon

START_SECONDS = 200.0
"""Bounds making a context: the first of Java and of Go is compiled."""


@dataclass(frozen=True)
class Context:
    """One context, and what its cells said."""

    client: httpx.Client
    id: str
    language: str

    def run(self, code: str, **fields: object) -> Execution:
        """Run a cell to its end."""
        return folded(self.client.post("/code", json=self._body(code, fields)))

    def value(self, code: str, **fields: object) -> str:
        """Run a cell that must succeed and return the text of its last value."""
        execution = self.run(code, **fields)
        assert execution.error is None, execution.error
        return str(results(execution)[-1]["text"])

    def out(self, code: str, **fields: object) -> str:
        """Run a cell that must succeed and return what it printed."""
        execution = self.run(code, **fields)
        assert execution.error is None, execution.error
        return "".join(execution.stdout)

    def failure(self, code: str, **fields: object) -> Event:
        """Run a cell that must fail and return its error."""
        error = self.run(code, **fields).error
        assert error is not None
        return error

    @contextmanager
    def running(self, code: str, **fields: object) -> Iterator[Iterator[Event]]:
        """Start a cell and hand out its events as they come."""
        with self.client.stream("POST", "/code", json=self._body(code, fields)) as response:
            assert response.status_code == 200
            yield frames(response)

    def interrupt(self) -> httpx.Response:
        """Ask what runs to end."""
        return self.client.delete("/code", params={"id": self.id})

    def delete(self) -> None:
        """End the context."""
        assert self.client.delete(f"/code/contexts/{self.id}").status_code == 200

    def _body(self, code: str, fields: dict[str, object]) -> dict[str, object]:
        return {"code": code, "context": {"id": self.id, "language": self.language}, **fields}


def made(client: httpx.Client, language: str, **fields: object) -> Context:
    """Make a context."""
    body = {"language": language, **fields}
    answer = client.post("/code/context", json=body, timeout=START_SECONDS)
    assert answer.status_code == 200, answer.text
    described = answer.json()
    assert described["language"] == language
    return Context(client, described["id"], language)


@contextmanager
def first_context(
    environment: Mapping[str, str] | None = None, **fields: object
) -> Iterator[Context]:
    """Run a daemon and make a context of Python, its first, which begins without IPython."""
    with run_daemon(OWN, environment={**surroundings(), **(environment or {})}) as daemon:
        yield made(daemon.client, "python", **fields)


@contextmanager
def forked_context(daemon: Daemon, **fields: object) -> Iterator[Context]:
    """Make a context of Python that is not the first of its daemon."""
    earlier, context = (made(daemon.client, "python", **fields) for _ in range(2))
    earlier.delete()
    yield context
    daemon.client.delete(f"/code/contexts/{context.id}")


def results(execution: Execution) -> list[dict[str, Any]]:
    """Return what each result event carries, by MIME type."""
    return [event["results"] for event in execution.events if event["type"] == "result"]


def output(execution: Execution) -> list[tuple[str, str]]:
    """Return the kinds and texts of what was printed and shown, in order."""
    return [
        (event["type"], event.get("text") or event.get("results", {}).get("text", ""))
        for event in execution.events
        if event["type"] in ("stdout", "stderr", "result")
    ]
