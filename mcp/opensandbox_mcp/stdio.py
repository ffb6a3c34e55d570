# SPDX-License-Identifier: Apache-2.0
"""Serves one client over standard input and output, until either ends or a signal comes.

Standard output carries the protocol and nothing else. The SDK reads standard input in a thread that
nothing can wake, so it is given a socket instead, which a signal can end.
"""

import os
import signal
import socket
import threading

import anyio

from opensandbox_mcp.server import SandboxServer

BLOCK = 64 << 10


def serve_stdio(server: SandboxServer) -> None:
    """Serve until the client closes standard input, or SIGTERM or SIGINT."""
    ours, inner = socket.socketpair()
    wire = os.dup(0)
    os.dup2(inner.fileno(), 0)
    inner.close()
    # A daemon: it may still wait for a client that never says anything more.
    threading.Thread(target=_pump, args=(wire, ours), name="stdin", daemon=True).start()
    anyio.run(_serve, server, ours)


def _pump(wire: int, to: socket.socket) -> None:
    """Pass on what arrives, and its end."""
    try:
        while block := os.read(wire, BLOCK):
            to.sendall(block)
    except OSError:
        return  # the server has ended before its client
    _end(to)


def _end(stream: socket.socket) -> None:
    try:
        stream.shutdown(socket.SHUT_WR)
    except OSError:
        return  # it had ended before


async def _serve(server: SandboxServer, stdin: socket.socket) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_end_on_signal, stdin)
        await server.run_stdio_async()
        group.cancel_scope.cancel()


async def _end_on_signal(stdin: socket.socket) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            _end(stdin)
