# SPDX-License-Identifier: Apache-2.0
"""Unix sockets at any path, and the listening socket of the public port."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from opensandbox_server.errors import StartupError


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Name a socket by a descriptor of its directory: its address may have 108 bytes only."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def listen_unix(
    path: Path, *, mode: int = 0o600, gid: int | None = None, backlog: int = 512
) -> socket.socket:
    """Listen at path, replacing what a former process left there."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(path) as name:
            listener.bind(name)
        if gid is not None:
            os.chown(path, -1, gid)
        path.chmod(mode)
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def listen_tcp(host: str, port: int, backlog: int) -> socket.socket:
    """Listen on the public port. Raises StartupError that names what is in the way."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=backlog)
    except OSError as fault:
        raise StartupError(_explain(fault, host, port)) from fault


def _explain(fault: OSError, host: str, port: int) -> str:
    place = f"{host}:{port}"
    if fault.errno == errno.EADDRINUSE:
        return f"cannot listen on {place}: the port is taken; choose another with server.port"
    if fault.errno == errno.EACCES:
        return f"cannot listen on {place}: ports below 1024 need privileges"
    return f"cannot listen on {place}: {fault.strerror or fault}"
