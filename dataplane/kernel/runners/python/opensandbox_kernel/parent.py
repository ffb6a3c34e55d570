# SPDX-License-Identifier: Apache-2.0
"""The parent: imports and warms everything once, then forks a context whenever the daemon asks.

It never runs a user's code, has one thread and no event loop, so that a fork of it is whole.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from . import context, shell


def serve(control: int) -> None:
    """Warm up, say so, and fork for each request until the daemon has gone."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    warmed = shell.warmed()
    shell.preload(warmed)
    gc.collect()
    gc.freeze()  # what is collected in a context is not copied for it
    with socket.socket(fileno=control) as daemon:
        daemon.sendall(b"r")
        while True:
            asked, descriptors, _, _ = socket.recv_fds(daemon, 1, 4)
            if not asked:
                return
            if _is_forked(daemon):
                daemon.close()
                context.live(warmed, *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)


def _is_forked(daemon: socket.socket) -> bool:
    """Fork twice, so that the context becomes a child of the daemon; say whether this is it."""
    answer_read, answer_write = os.pipe()
    try:
        between = os.fork()
    except OSError:
        between = -1
    if between == 0:
        try:
            grandchild = os.fork()
        except OSError:
            os.write(answer_write, b"n")
            os._exit(1)
        if grandchild != 0:
            os.write(answer_write, b"o")
            os._exit(0)
        os.close(answer_read)
        os.close(answer_write)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until it can be answered
        return True
    os.close(answer_write)
    answer = b"n" if between < 0 else os.read(answer_read, 1) or b"n"
    os.close(answer_read)
    if between > 0:
        os.waitpid(between, 0)
    daemon.sendall(answer)
    return False
