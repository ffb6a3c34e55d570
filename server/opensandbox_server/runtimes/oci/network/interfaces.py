# SPDX-License-Identifier: Apache-2.0
"""Interfaces of the network namespace the calling thread is in, set up by ioctl.

A netlink client takes milliseconds to make, and every slot would need one of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import time
from ipaddress import IPv4Address

_SIOCADDRT, _SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x890B, 0x8913, 0x8914
_SIOCSIFADDR, _SIOCSIFDSTADDR, _SIOCSIFBRDADDR, _SIOCSIFNETMASK = 0x8916, 0x8918, 0x891A, 0x891C
_SIOCDARP, _SIOCSARP = 0x8953, 0x8955
_IFF_UP, _IFF_RUNNING, _IFF_NOARP = 0x1, 0x40, 0x80
_RTF_UP, _RTF_GATEWAY = 1, 2
_ATF_COM, _ATF_PERM = 0x2, 0x4
_ETHERNET = 1
_CARRIER_MS = 1000
"""How long the kernel may take on a machine that is busy."""
_NOWHERE, _ALONE = IPv4Address("0.0.0.0"), IPv4Address("255.255.255.255")


def raise_interface(name: str, *, asks_for_neighbours: bool = True) -> None:
    """Switch an interface on."""
    wanted = _IFF_UP if asks_for_neighbours else _IFF_UP | _IFF_NOARP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = _flags(any_socket, name) | wanted
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", name.encode(), flags))


def wait_for_carrier(name: str) -> None:
    """Return when packets pass a link, or after a while: the kernel raises it a moment later."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _ in range(_CARRIER_MS):
            if _flags(any_socket, name) & _IFF_RUNNING:
                return
            time.sleep(0.001)


def _flags(any_socket: socket.socket, name: str) -> int:
    answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack("16sh22x", name.encode(), 0))
    return int(struct.unpack_from("h", answer, 16)[0])


def set_address(name: str, address: IPv4Address, peer: IPv4Address) -> None:
    """Give an interface its address and the only other one that is on its link."""
    settings = (
        (_SIOCSIFADDR, address),
        (_SIOCSIFDSTADDR, peer),
        (_SIOCSIFNETMASK, _ALONE),
        (_SIOCSIFBRDADDR, _NOWHERE),
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for request, value in settings:
            fcntl.ioctl(
                any_socket, request, struct.pack("16s16s8x", name.encode(), _sockaddr(value))
            )


def set_neighbour(name: str, address: IPv4Address, hardware: str) -> None:
    """Write down the hardware address of a neighbour, for good: nobody is asked for it."""
    known = struct.pack("=H6s8x", _ETHERNET, bytes.fromhex(hardware.replace(":", "")))
    _change_neighbour(_SIOCSARP, name, address, known, _ATF_COM | _ATF_PERM)


def forget_neighbour(name: str, address: IPv4Address) -> None:
    """Remove what set_neighbour wrote; an unknown one is no error."""
    with contextlib.suppress(OSError):
        _change_neighbour(_SIOCDARP, name, address, bytes(16), 0)


def _change_neighbour(
    request: int, name: str, address: IPv4Address, hardware: bytes, flags: int
) -> None:
    entry = struct.pack(
        "16s16si16s16s", _sockaddr(address), hardware, flags, bytes(16), name.encode()
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, request, entry)


def add_default_route(gateway: IPv4Address) -> None:
    """Send everything else to the gateway."""
    nowhere = _sockaddr(_NOWHERE)
    entry = struct.pack(
        "L16s16s16sHhLPh6xPLLH6x",
        *(0, nowhere, _sockaddr(gateway), nowhere, _RTF_UP | _RTF_GATEWAY),
        *(0, 0, 0, 0, 0, 0, 0, 0),
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCADDRT, entry)


def _sockaddr(address: IPv4Address) -> bytes:
    return struct.pack("=H2x4s8x", socket.AF_INET, address.packed)
