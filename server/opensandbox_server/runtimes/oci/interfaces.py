# SPDX-License-Identifier: Apache-2.0
"""Interfaces of the network namespace the calling thread is in, set up by ioctl.

A netlink client takes milliseconds to make, and every slot would need one of its own.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from ipaddress import IPv4Address, IPv4Network

_SIOCADDRT, _SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x890B, 0x8913, 0x8914
_SIOCSIFADDR, _SIOCSIFNETMASK = 0x8916, 0x891C
_IFF_UP = 1
_RTF_UP, _RTF_GATEWAY = 1, 2


def raise_interface(name: str) -> None:
    """Switch an interface on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh22x", name.encode(), 0)
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request)
        flags = struct.unpack_from("h", answer, 16)[0] | _IFF_UP
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", name.encode(), flags))


def set_address(name: str, address: IPv4Address, network: IPv4Network) -> None:
    """Give an interface its address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for request, value in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, network.netmask)):
            fcntl.ioctl(
                any_socket, request, struct.pack("16s16s8x", name.encode(), _sockaddr(value))
            )


def add_default_route(gateway: IPv4Address) -> None:
    """Send everything else to the gateway."""
    nowhere = _sockaddr(IPv4Address(0))
    entry = struct.pack(
        "L16s16s16sHhLPh6xPLLH6x",
        *(0, nowhere, _sockaddr(gateway), nowhere, _RTF_UP | _RTF_GATEWAY),
        *(0, 0, 0, 0, 0, 0, 0, 0),
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCADDRT, entry)


def _sockaddr(address: IPv4Address) -> bytes:
    return struct.pack("=H2x4s8x", socket.AF_INET, address.packed)
