# SPDX-License-Identifier: Apache-2.0
"""Descriptors that come over a socket."""

from __future__ import annotations

import array
import socket


def receive_descriptors(channel: socket.socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """Receive bytes and up to so many descriptors, which no program that is started inherits.

    `socket.recv_fds` does not hand its flags on: between its return and a mark set by us another
    thread could start a program.
    """
    fds = array.array("i")
    room = socket.CMSG_LEN(most * fds.itemsize)
    data, messages, _, _ = channel.recvmsg(size, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, passed in messages:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(passed[: len(passed) - len(passed) % fds.itemsize])
    return data, list(fds)
