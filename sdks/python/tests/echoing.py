# SPDX-License-Identifier: Apache-2.0
"""A TCP server that answers in capitals when its client has ended, and one that breaks."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def run_shouting(*, breaks: bool = False) -> Iterator[int]:
    """Serve one connection at a time on a free port, until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                _answer(client, breaks)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def _answer(client: socket.socket, breaks: bool) -> None:
    said = b""
    while data := client.recv(1 << 16):
        said += data
        if breaks:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
    client.sendall(said.upper())
