# SPDX-License-Identifier: Apache-2.0
"""Tracked connections of the network namespace the calling thread is in."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

_COUNT = Path("/proc/sys/net/netfilter/nf_conntrack_count")
_MOST = Path("/proc/sys/net/netfilter/nf_conntrack_max")
_UNKNOWN_MOST = 65536
"""Assumed where nothing bounds them, or the kernel has not begun to track any."""
_NETLINK_NETFILTER = 12
_GET, _DELETE = 1 << 8 | 1, 1 << 8 | 2
"""Of the conntrack subsystem."""
_REQUEST, _ANSWERED, _LISTED = 1, 4, 0x300
_ERROR, _DONE = 2, 3
_NESTED = 0x8000
_TUPLE_ORIG, _TUPLE_IP, _IP_V4_SRC, _ZONE, _FILTER, _FILTER_ORIG_FLAGS = 1, 1, 1, 18, 25, 1
_BY_SOURCE = 1
_HEAD = struct.Struct("=IHHII")
_FAMILY_BYTES = 4
_ANSWER_SECONDS = 10.0
"""How long the kernel may take to walk through a large table."""
_ROUNDS = 5
"""How often what began meanwhile is looked for; a sandbox that is gone begins nothing."""


def count() -> int:
    """Return how many connections are tracked."""
    return int(_COUNT.read_text())


def most() -> int:
    """Return how many can be tracked."""
    try:
        return int(_MOST.read_text()) or _UNKNOWN_MOST
    except FileNotFoundError:
        return _UNKNOWN_MOST


def forget(address: IPv4Address) -> None:
    """Remove every connection that began at an address. Raises OSError when the kernel refuses."""
    with _asking() as netlink:
        netlink.send(_message(_DELETE, _ANSWERED, _begun_at(address)))
        code = _code(netlink.recv(4096))
    if code == errno.EINVAL:  # an older kernel, such as 6.1, removes by whole tuples alone
        forget_each(address)
    elif code not in (0, errno.ENOENT):
        raise OSError(code, f"tracked connections of {address}: {os.strerror(code)}")


def forget_each(address: IPv4Address) -> None:
    """Do the same on a kernel that lists by a filter and removes one connection at a time."""
    for _ in range(_ROUNDS):
        with _asking() as netlink:
            found = list(_list(netlink, address))
            for connection in found:
                netlink.send(_message(_DELETE, _ANSWERED, connection))
                code = _code(netlink.recv(4096))
                if code not in (0, errno.ENOENT):
                    raise OSError(code, f"a connection of {address}: {os.strerror(code)}")
        if not found:
            return


def _list(netlink: socket.socket, address: IPv4Address) -> Iterator[bytes]:
    """Yield what names each connection that began at an address: its tuple, and its zone if any."""
    netlink.send(_message(_GET, _LISTED, _begun_at(address)))
    while True:
        received = netlink.recv(1 << 17)
        while received:
            length, kind, _, _, _ = _HEAD.unpack_from(received)
            if kind == _ERROR:
                code = _code(received)
                raise OSError(code, f"tracked connections of {address}: {os.strerror(code)}")
            if kind == _DONE:
                return
            yield b"".join(
                attribute
                for attribute in _attributes(received[_HEAD.size + _FAMILY_BYTES : length])
                if struct.unpack_from("=H", attribute, 2)[0] & ~_NESTED in (_TUPLE_ORIG, _ZONE)
            )
            received = received[_padded(length) :]


def _asking() -> socket.socket:
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
    netlink.settimeout(_ANSWER_SECONDS)
    return netlink


def _code(answer: bytes) -> int:
    (code,) = struct.unpack_from("=i", answer, _HEAD.size)
    return -int(code)


def _begun_at(address: IPv4Address) -> bytes:
    source = _attribute(_IP_V4_SRC, address.packed)
    tuple_ = _attribute(_TUPLE_ORIG | _NESTED, _attribute(_TUPLE_IP | _NESTED, source))
    flags = _attribute(_FILTER_ORIG_FLAGS, struct.pack("=I", _BY_SOURCE))
    return tuple_ + _attribute(_FILTER | _NESTED, flags)


def _message(kind: int, flags: int, attributes: bytes) -> bytes:
    # Without a version (1) the kernel ignores the family, and without a family the filter.
    body = struct.pack("=BBH", socket.AF_INET, 1, 0) + attributes
    return _HEAD.pack(_HEAD.size + len(body), kind, _REQUEST | flags, 1, 0) + body


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value


def _attributes(received: bytes) -> Iterator[bytes]:
    while received:
        (length,) = struct.unpack_from("=H", received)
        yield received[:length].ljust(_padded(length), b"\0")
        received = received[_padded(length) :]


def _padded(length: int) -> int:
    return (length + 3) & ~3
