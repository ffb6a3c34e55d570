# SPDX-License-Identifier: Apache-2.0
"""Raw TCP to a port of a sandbox, carried by a WebSocket."""

from types import TracebackType
from typing import Self

from opensandbox.exceptions import InvalidArgumentException

from .transport import Remote
from .websocket import WebSocket, open_websocket

MAX_PORT = 65535
END = '{"type":"eof"}'
"""The message of a side that sends no more bytes."""


async def open_tunnel(execd: Remote, port: int) -> "Tunnel":
    """Connect to what listens on a port of the sandbox."""
    if not 0 < port <= MAX_PORT:
        raise InvalidArgumentException(f"a port is a number from 1 to {MAX_PORT}, not {port}")
    return Tunnel(port, await open_websocket(execd, f"/ports/{port:d}/tunnel"))


class Tunnel:
    """One TCP connection to a port of a sandbox. As a context manager it closes when left."""

    def __init__(self, port: int, websocket: WebSocket) -> None:
        """Hold a connection; most callers want ``sandbox.open_tunnel``."""
        self.port = port
        self._websocket = websocket
        self._has_ended = False

    async def send(self, data: bytes) -> None:
        """Send bytes, waiting while the other side does not read."""
        if data:
            await self._websocket.send(bytes(data), advice=self._advice)

    async def receive(self) -> bytes:
        """Return the next bytes; none when the other side sends no more."""
        while not self._has_ended:
            message = await self._websocket.receive(advice=self._advice)
            if isinstance(message, bytes) and message:
                return message
            self._has_ended = not isinstance(message, bytes)
        return b""

    async def end(self) -> None:
        """Send no more. What the other side still says can be received."""
        await self._websocket.send(END, advice=self._advice)

    async def close(self) -> None:
        """Close the connection, whatever is under way."""
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

    @property
    def _advice(self) -> str:
        return f"the tunnel to port {self.port} broke; open a new one"
