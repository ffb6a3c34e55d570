# SPDX-License-Identifier: Apache-2.0
"""Terminals inside a sandbox: programs that think a person sits in front of them."""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from pydantic import BaseModel, TypeAdapter

from opensandbox._requests import segment
from opensandbox._terminal_frames import (
    Exit,
    Output,
    Problem,
    input_frame,
    read_frame,
    resize_frame,
    signal_frame,
)
from opensandbox.exceptions import SandboxConnectionException, SandboxError, SandboxException

from .transport import Remote
from .websocket import WebSocket, open_websocket

DEFAULT_ROWS = 24
DEFAULT_COLUMNS = 80


class _NewTerminal(BaseModel):
    session_id: str


_NEW_TERMINAL = TypeAdapter(_NewTerminal)


class Terminals:
    """Terminals of one sandbox."""

    def __init__(self, execd: Remote) -> None:
        """Speak to this execd."""
        self._execd = execd

    async def open(
        self,
        *,
        rows: int = DEFAULT_ROWS,
        columns: int = DEFAULT_COLUMNS,
        working_directory: str | None = None,
        command: str | None = None,
    ) -> "Terminal":
        """Start a shell, or a command of a shell, in a new terminal and attach to it."""
        fields = {"rows": rows, "cols": columns, "cwd": working_directory, "command": command}
        body = {name: value for name, value in fields.items() if value is not None}
        made = await self._execd.ask(_NEW_TERMINAL, "POST", "/pty", json=body)
        return await self.attach(made.session_id)

    async def attach(
        self,
        id: str,  # noqa: A002
        *,
        since: int = 0,
        takeover: bool = False,
    ) -> "Terminal":
        """Attach to a terminal that exists and get what it wrote from byte ``since`` on.

        ``takeover`` sends away whoever is attached; without it that is an error.
        """
        path = f"/pty/{segment(id, 'id')}/ws"
        query = [("since", str(since)), ("takeover", "1" if takeover else "0")]
        return Terminal(id, await open_websocket(self._execd, path, query), since)

    async def delete(self, id: str) -> None:  # noqa: A002
        """End a terminal and everything that runs in it."""
        await self._execd.send("DELETE", f"/pty/{segment(id, 'id')}")


class Terminal:
    """One attached terminal. Iterate over it to get what the program writes, as bytes.

    As a context manager it detaches when left; the program goes on. ``Terminals.delete`` ends it.
    """

    def __init__(self, id: str, websocket: WebSocket, since: int = 0) -> None:  # noqa: A002
        """Hold an attached terminal; most callers want ``sandbox.terminals.open``."""
        self.id = id
        self.exit_code: int | None = None
        """How the program ended; None while it runs."""
        self.offset = since
        """Where to attach again later: ``attach(id, since=offset)`` misses and repeats nothing."""
        self._websocket = websocket

    async def send(self, data: bytes | str) -> None:
        """Type something."""
        await self._send(input_frame(data))

    async def resize(self, rows: int, columns: int) -> None:
        """Tell the program that the window has changed its size."""
        await self._send(resize_frame(rows, columns))

    async def signal(self, name: str) -> None:
        """Send a signal to what runs in the foreground: ``SIGINT``, ``SIGTERM``, ``SIGKILL``, …."""
        await self._send(signal_frame(name))

    async def receive(self) -> bytes:
        """Return what the program wrote next; nothing when it has ended."""
        while self.exit_code is None:
            match read_frame(await self._receive()):
                case Output(data, offset):
                    self.offset = len(data) + (self.offset if offset is None else offset)
                    return data
                case Exit(exit_code):
                    self.exit_code = exit_code
                case Problem(code, message):
                    raise SandboxException(message, error=SandboxError(code, message))
        return b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.receive():
            yield data

    async def close(self) -> None:
        """Detach. The program goes on."""
        await self._websocket.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _receive(self) -> str | bytes:
        message = await self._websocket.receive(advice=self._advice)
        if message is None:
            raise SandboxConnectionException(self._advice)
        return message

    async def _send(self, message: str | bytes) -> None:
        await self._websocket.send(message, advice=self._advice)

    @property
    def _advice(self) -> str:
        again = f"terminals.attach({self.id!r}, since={self.offset})"
        return f"detached from terminal {self.id}; attach again with {again}"
