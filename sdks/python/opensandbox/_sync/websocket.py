# SPDX-License-Identifier: Apache-2.0
# Made from _async/websocket.py by scripts/unasync.py; change it there.
"""Opens WebSockets to a sandbox. Most programs need none, so that this is imported late."""

from contextlib import ExitStack

from websockets.sync.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from opensandbox._requests import Query, with_query
from opensandbox._websockets import MAX_MESSAGE, is_normal, opening, speaking, websocket_url

from .transport import Remote


class WebSocket:
    """One open WebSocket."""

    def __init__(self, connection: ClientConnection, stack: ExitStack) -> None:
        """Hold a connection; closing the stack closes it."""
        self._connection = connection
        self._stack = stack

    def send(self, message: str | bytes, *, advice: str) -> None:
        """Send one message, waiting while the other side does not read.

        ``advice`` is what to say when the connection is broken.
        """
        with speaking(advice):
            self._connection.send(message)

    def receive(self, *, advice: str) -> str | bytes | None:
        """Return the next message; None when the other side has closed because it was done."""
        with speaking(advice):
            try:
                return self._connection.recv()
            except ConnectionClosed as closed:
                if is_normal(closed):
                    return None
                raise

    def close(self) -> None:
        """Say goodbye and close the connection."""
        self._stack.close()


def open_websocket(remote: Remote, path: str, query: Query | None = None) -> WebSocket:
    """Open a WebSocket at a path of ``remote``, with the headers all its requests carry."""
    target, config = remote.target, remote.config
    seconds = config.request_timeout.total_seconds()
    stack = ExitStack()
    with opening(path):
        connection = stack.enter_context(
            connect(
                websocket_url(target.base_url, with_query(path, query)),
                additional_headers=dict(target.headers),
                user_agent_header=None,  # it is among the others
                compression=None,
                proxy=None,
                open_timeout=seconds,
                close_timeout=seconds,
                ping_interval=None,  # a side that does not read must not be taken for a dead one
                max_size=MAX_MESSAGE,
            )
        )
    return WebSocket(connection, stack)
