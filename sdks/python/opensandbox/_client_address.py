# SPDX-License-Identifier: Apache-2.0
"""Finds the address this machine is known by."""

import socket
from functools import lru_cache

CLIENT_IP_HEADER = "OPEN-SANDBOX-CLIENT-IP"

# An address that exists in documentation only. Nothing is sent: the kernel says which of its own
# addresses it would send from.
_ELSEWHERE = ("192.0.2.1", 9)


@lru_cache(maxsize=1)
def client_address() -> str | None:
    """Return the address that leads outside; None without one."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_ELSEWHERE)
            return str(probe.getsockname()[0])
    except OSError:
        return None
