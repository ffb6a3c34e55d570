# SPDX-License-Identifier: Apache-2.0
"""The limits of single processes, the same for every sandbox whatever the operator's shell has."""

from __future__ import annotations

import resource
from resource import RLIM_INFINITY

OPEN_FILES = 65536
"""Files one process of a sandbox may have open; all of a machine share one bound."""
_MIB = 1024 * 1024

INHERITED: dict[int, tuple[int, int]] = {
    resource.RLIMIT_CORE: (0, 0),
    resource.RLIMIT_NOFILE: (OPEN_FILES, OPEN_FILES),
    resource.RLIMIT_STACK: (8 * _MIB, RLIM_INFINITY),
    resource.RLIMIT_MEMLOCK: (8 * _MIB, 8 * _MIB),
    resource.RLIMIT_MSGQUEUE: (819200, 819200),
    resource.RLIMIT_SIGPENDING: (16384, 16384),
    resource.RLIMIT_RTPRIO: (0, 0),
    resource.RLIMIT_NICE: (0, 0),
    # Bounded by cgroups, or not at all.
    resource.RLIMIT_NPROC: (RLIM_INFINITY, RLIM_INFINITY),
    resource.RLIMIT_AS: (RLIM_INFINITY, RLIM_INFINITY),
    resource.RLIMIT_DATA: (RLIM_INFINITY, RLIM_INFINITY),
    resource.RLIMIT_RSS: (RLIM_INFINITY, RLIM_INFINITY),
    resource.RLIMIT_CPU: (RLIM_INFINITY, RLIM_INFINITY),
    resource.RLIMIT_FSIZE: (RLIM_INFINITY, RLIM_INFINITY),
    resource.RLIMIT_RTTIME: (RLIM_INFINITY, RLIM_INFINITY),
    10: (RLIM_INFINITY, RLIM_INFINITY),  # RLIMIT_LOCKS, which Python does not name
}


def set_inherited_limits() -> None:
    """Set the limits sandboxes inherit from this process; in theirs nobody may raise them.

    Not left to the OCI runtime: it may set those of a process with other ids only where root still
    has CAP_SYS_RESOURCE.
    """
    for kind, (soft, hard) in INHERITED.items():
        try:
            resource.setrlimit(kind, (soft, hard))
        except ValueError:  # not even root may raise one, where that capability was taken from it
            _, most = resource.getrlimit(kind)
            resource.setrlimit(kind, (_lower(soft, most), _lower(hard, most)))


def _lower(one: int, other: int) -> int:
    return one if other == RLIM_INFINITY else other if one == RLIM_INFINITY else min(one, other)
