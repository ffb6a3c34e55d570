# SPDX-License-Identifier: Apache-2.0
"""Tracked connections of the network namespace the calling thread is in."""

from __future__ import annotations

import errno
import os
import socket
import struct
from ipaddress import IPv4Address
from pathlib import Path

_COUNT = Path("/proc/sys/net/netfilter/nf_conntrack_count")
_MOST = Path("/proc/sys/net/netfilter/nf_conntrack_max")
_UNKNOWN_MOST = 65536
"""Assumed where nothing bounds them, or the kernel has not begun to track any."""
_NETLINK_NETFILTER = 12
_DELETE = 1 << 8 | 2
"""Of the conntrack subsystem; with a filter it takes all that match, in the kernel."""
_REQUEST_WITH_ANSWER = 1 | 4
_NESTED = 0x8000
_TUPLE_ORIG, _TUPLE_IP, _IP_V4_SRC, _FILTER, _FILTER_ORIG_FLAGS = 1, 1, 1, 25, 1
_BY_SOURCE = 1
_HEAD = struct.Struct("=IHHII")
_ANSWER_SECONDS = 10.0
"""How long the kernel may take to walk through a large table."""


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
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as netlink:
        netlink.settimeout(_ANSWER_SECONDS)
        netlink.send(_message(address))
        answer = netlink.recv(4096)
    (code,) = struct.unpack_from("=i", answer, _HEAD.size)
    if code not in (0, -errno.ENOENT):
        raise OSError(-code, f"tracked connections of {address}: {os.strerror(-code)}")


def _message(address: IPv4Address) -> bytes:
    source = _attribute(_IP_V4_SRC, address.packed)
    tuple_ = _attribute(_TUPLE_ORIG | _NESTED, _attribute(_TUPLE_IP | _NESTED, source))
    flags = _attribute(_FILTER_ORIG_FLAGS, struct.pack("=I", _BY_SOURCE))
    # Without a version (1) the kernel ignores the family, and without a family the filter.
    body = struct.pack("=BBH", socket.AF_INET, 1, 0) + tuple_ + _attribute(_FILTER | _NESTED, flags)
    return _HEAD.pack(_HEAD.size + len(body), _DELETE, _REQUEST_WITH_ANSWER, 1, 0) + body


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value
