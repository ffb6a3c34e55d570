# SPDX-License-Identifier: Apache-2.0
"""What server and launcher say to each other: length, JSON, and descriptors beside it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opensandbox_server.runtimes.oci.launcher.passed import receive_descriptors
from opensandbox_server.runtimes.oci.launcher.program import FIRST_FREE_FD

LENGTH = struct.Struct(">I")
LARGEST = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Setup:
    """What the server says first."""

    data_dir: str
    execd: str
    cgroup: str
    program: str
    slots_ahead: int
    concurrent_starts: int
    subnet: str
    network: Mapping[str, Any]
    """Of rules.NetworkOptions."""
    memory_bytes: int
    """What all sandboxes together may use."""
    pids: int


def encode(message: dict[str, Any]) -> bytes:
    """Return what is sent; descriptors go with its first bytes."""
    body = json.dumps(message).encode()
    if len(body) > LARGEST:
        raise ValueError("the request is too large")
    return LENGTH.pack(len(body)) + body


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Send a message; blocks."""
    channel.sendall(encode(message))


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive a message and its descriptors; blocks. Raises EOFError at the end."""
    head, passed = receive_descriptors(channel, LENGTH.size, 1)
    descriptors = [_raised(descriptor) for descriptor in passed]
    head += _exactly(channel, LENGTH.size - len(head)) if head else b""
    if not head:
        raise EOFError("the other end is closed")
    (size,) = LENGTH.unpack(head)
    message: dict[str, Any] = json.loads(_exactly(channel, size))
    return message, descriptors


def _exactly(channel: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = channel.recv(size)
        if not part:
            raise EOFError("the other end closed in the middle of a message")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _raised(descriptor: int) -> int:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD)
    finally:
        os.close(descriptor)
