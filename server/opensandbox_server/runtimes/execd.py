# SPDX-License-Identifier: Apache-2.0
"""execd seen from the server: the socket made for it, and its first answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from opensandbox_server.host.sockets import listen_unix, short_path

BACKLOG = 4096
_LARGEST_HEAD = 64 * 1024
ANSWER_SECONDS = 20.0
"""How long a started sandbox may take to answer its first request."""


class NoAnswer(Exception):
    """execd closed the connection, or said something that is no answer."""


@contextlib.contextmanager
def listening(path: Path, gid: int | None) -> Iterator[int]:
    """Make the socket execd will answer on; it exists before execd does."""
    with listen_unix(path, mode=0o660, gid=gid, backlog=BACKLOG) as listener:
        yield listener.fileno()


def let_in(gid: int | None, sockets: Path) -> None:
    """Open a directory, and the sockets that are in it already, to ingress.

    It may have been another user before, when their sandboxes were started.
    """
    if gid is not None:
        for path in (sockets, *sockets.rglob("*")):
            os.chown(path, -1, gid, follow_symlinks=False)


@contextlib.contextmanager
def asked(path: Path, token: str) -> Iterator[socket.socket]:
    """Ask for a first answer before execd is started: even one that ends at once then answers.

    Nothing here waits: the socket listens already, and the question fits into its buffer.
    """
    head = f"GET /ping HTTP/1.1\r\nHost: execd\r\nX-EXECD-ACCESS-TOKEN: {token}\r\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        with short_path(path) as name:
            connection.connect(name)
        connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
        yield connection


async def first_answer(connection: socket.socket) -> None:
    """Wait for the answer, until execd is gone at the latest. Raises NoAnswer.

    Nobody else may still have the listening socket open: a question in its queue would wait on.
    """
    loop, said = asyncio.get_running_loop(), b""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            while b"\r\n" not in said and len(said) < _LARGEST_HEAD:
                part = await loop.sock_recv(connection, 4096)
                if not part:
                    break
                said += part
    except ConnectionError as fault:
        raise NoAnswer("execd did not start") from fault
    except TimeoutError as fault:
        raise NoAnswer(f"execd did not answer within {ANSWER_SECONDS:.0f} s") from fault
    status = said.split(b"\r\n", 1)[0]
    if not status.startswith(b"HTTP/1.1 200"):
        shown = status[:80].decode(errors="replace")
        raise NoAnswer(f"execd answered: {shown}" if shown else "execd ended at once")


def why_it_ended(exit_code: int | None, logs: str) -> str:
    """Say how a sandbox ended that never answered, with the last line it wrote."""
    lines = logs.strip().splitlines()
    how = "" if exit_code is None else f" with status {exit_code}"
    return (
        f"the entrypoint could not be started: execd ended{how}{f': {lines[-1]}' if lines else ''}"
    )
