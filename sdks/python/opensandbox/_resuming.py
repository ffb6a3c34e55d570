# SPDX-License-Identifier: Apache-2.0
"""Where a stream that was lost goes on. Knows no network."""

from dataclasses import dataclass
from typing import Protocol

from opensandbox._events import Event
from opensandbox._requests import Query, segment
from opensandbox.exceptions import SandboxInternalException


@dataclass(frozen=True)
class Ask:
    """A request for a stream of events."""

    method: str
    path: str
    query: Query | None = None
    json: object = None


class Resumption(Protocol):
    """What has arrived of a run, and how to ask for the rest."""

    def accept(self, event: Event) -> bool:
        """Take note of an event; False when it has arrived before."""
        ...

    def next_ask(self) -> Ask | None:
        """Return the request that goes on from here; None when nobody knows what to ask for."""
        ...

    @property
    def advice(self) -> str:
        """Say how somebody can go on by hand."""
        ...


class Lines:
    """A run sent line by line. Each of its outputs goes on after its own last line."""

    def __init__(self, execution_id: str | None, cursor: int = 0) -> None:
        """Begin at ``cursor``; without an id nothing can be resumed before the first event."""
        self._id = execution_id
        self._has_begun = False
        self._is_resumed = False
        self._cursors = {"stdout": cursor, "stderr": cursor}

    def accept(self, event: Event) -> bool:
        """Take note of an event; False when it has arrived before."""
        match event:
            case {"type": "init", "text": str(execution_id)}:
                is_first, self._has_begun = not self._has_begun, True
                self._id = execution_id
                return is_first
            case {"type": "gap", "cursor": int(cursor)} if self._is_resumed:
                self._check_gap(cursor)
            case {"type": "stdout" | "stderr" as stream, "cursor": int(cursor)}:
                self._cursors[stream] = cursor
        return True

    def next_ask(self) -> Ask | None:
        """Return the request that goes on from here; None when nobody knows what to ask for."""
        if self._id is None:
            return None
        self._is_resumed = True
        cursors = [(stream, str(cursor)) for stream, cursor in self._cursors.items()]
        return Ask("GET", output_path(self._id), [("lines", "true"), *cursors])

    @property
    def advice(self) -> str:
        """Say how somebody can go on by hand."""
        if self._id is None:
            return "it is not known whether it began; look before running it again"
        cursor = min(self._cursors.values())
        return f"look with commands.follow({self._id!r}, cursor={cursor}) whether it goes on"

    def _check_gap(self, kept_from: int) -> None:
        # Before the later cursor one output is complete. Of the other, at most the beginning of a
        # line that was unfinished for longer than the journal reaches can be among what is gone.
        if (missing := kept_from - max(self._cursors.values())) > 0:
            raise SandboxInternalException(
                f"command {self._id} wrote {missing} bytes too many to keep while the connection "
                f"was lost; read what is kept with commands.replay({self._id!r})"
            )


class Bytes:
    """A replay, byte for byte."""

    def __init__(self, execution_id: str, cursor: int, *, follow: bool) -> None:
        """Begin at ``cursor``."""
        self._id = execution_id
        self._cursor = cursor
        self._follow = follow
        self._has_begun = False

    def accept(self, event: Event) -> bool:
        """Take note of an event; False when it has arrived before."""
        if isinstance(cursor := event.get("cursor"), int):
            self._cursor = cursor
        is_init = event.get("type") == "init"
        is_first, self._has_begun = not self._has_begun, self._has_begun or is_init
        return is_first or not is_init

    def next_ask(self) -> Ask:
        """Return the request that goes on from here."""
        query = [("cursor", str(self._cursor)), ("follow", str(self._follow).lower())]
        return Ask("GET", output_path(self._id), query)

    @property
    def advice(self) -> str:
        """Say how somebody can go on by hand."""
        return f"go on with commands.replay({self._id!r}, cursor={self._cursor})"


class Once:
    """A run of which nothing is kept: a stream that is lost is lost."""

    def __init__(self, advice: str = "it may go on; look before running it again") -> None:
        """Say how somebody can go on by hand."""
        self.advice = advice

    def accept(self, event: Event) -> bool:  # noqa: ARG002
        """Take any event."""
        return True

    def next_ask(self) -> None:
        """There is nothing to ask for."""


def output_path(execution_id: str) -> str:
    """Return where the output of a command is."""
    return f"/command/{segment(execution_id, 'execution_id')}/output"
