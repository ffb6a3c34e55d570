# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that cuts connections when it is told to, or lets them fall silent."""

import socket
import struct
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

_CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # closing is then a reset and not an end


class Cutter:
    """Passes bytes on in both directions and counts what comes back."""

    def __init__(self, upstream: str) -> None:
        host, port = upstream.rsplit(":", 1)
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._budgets: deque[int] = deque()
        self._falls_silent = False
        self.cuts = 0
        """How many connections were cut."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut_after(self, budgets: Iterable[int], *, falls_silent: bool = False) -> None:
        """Cut the connection whose bytes use a budget up, and so on for each budget in turn."""
        with self._lock:
            self._budgets = deque(budgets)
            self._falls_silent = falls_silent
            self.cuts = 0

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(self._upstream)
            self._sockets += [client, upstream]
            for source, target, counts in ((client, upstream, False), (upstream, client, True)):
                arguments = (source, target, counts)
                thread = threading.Thread(target=self._carry, args=arguments, daemon=True)
                thread.start()
                self._threads.append(thread)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for one in self._sockets:
            one.close()

    def _carry(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with suppress(OSError):  # either end may be gone
            while data := source.recv(_CHUNK):
                allowed = self._allowed(data) if counts else data
                target.sendall(allowed)
                if len(allowed) < len(data):
                    if not self._falls_silent:
                        target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                        target.shutdown(socket.SHUT_RDWR)
                        source.shutdown(socket.SHUT_RDWR)
                    return
            target.shutdown(socket.SHUT_WR)

    def _allowed(self, data: bytes) -> bytes:
        with self._lock:
            if not self._budgets:
                return data
            if len(data) <= self._budgets[0]:
                self._budgets[0] -= len(data)
                return data
            self.cuts += 1
            return data[: self._budgets.popleft()]


@contextmanager
def run_cutter(upstream: str) -> Iterator[Cutter]:
    """Run a proxy until the block ends."""
    cutter = Cutter(upstream)
    thread = threading.Thread(target=cutter.serve)
    thread.start()
    try:
        yield cutter
    finally:
        cutter.close()
        thread.join(10)
