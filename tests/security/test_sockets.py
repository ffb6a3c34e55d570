# SPDX-License-Identifier: Apache-2.0
"""Which sockets a sandbox can make: asking for a rare one loads its module into the kernel."""

from __future__ import annotations

from tests.harness.runtime import Box, Home

MAKE = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for family, kind, protocol in {wanted}:
    made = libc.{call}(family, kind, ctypes.c_long(protocol), (ctypes.c_int * 2)())
    print("made" if made >= 0 else errno.errorcode[ctypes.get_errno()])
"""
STREAM, DATAGRAM, RAW, SEQUENCED, DCCP = 1, 2, 3, 5, 6
UNIX, INET, INET6, NETLINK, RDS, TIPC, PACKET, VSOCK = 1, 2, 10, 16, 21, 30, 17, 40

RARE = [
    *((family, STREAM, 132) for family in (INET, INET6)),  # SCTP
    *((family, SEQUENCED, 132) for family in (INET, INET6)),
    (INET, DCCP, 33),
    (INET, DATAGRAM, 115),  # L2TP
    (INET, DATAGRAM, 136),  # UDP-Lite
    (INET, STREAM, 132 | 1 << 32),  # the kernel looks at the lower half only
    *((NETLINK, RAW, protocol) for protocol in (6, 9, 12, 15, 16)),  # IPsec, audit, netfilter, …
    (TIPC, SEQUENCED, 0),
    (PACKET, DATAGRAM, 0),
    (VSOCK, STREAM, 0),
]
BUILT_IN = [rare for rare in RARE if rare[0] == NETLINK or rare[2] == 136]
"""Those that load nothing into the kernel of the machine that runs the tests."""
USUAL = [
    (UNIX, STREAM, 0),
    (UNIX, DATAGRAM, 1),
    *((family, STREAM, protocol) for family in (INET, INET6) for protocol in (0, 6, 262)),
    *((family, DATAGRAM, protocol) for family in (INET, INET6) for protocol in (0, 17)),
    (INET, DATAGRAM, 1),  # ping, where the operator allows it
    (INET6, DATAGRAM, 58),
    (NETLINK, RAW, 0),
    (NETLINK, RAW, 4),
]


def made(box: Box, wanted: list[tuple[int, int, int]], call: str = "socket") -> list[str]:
    """Try to make sockets; returns how each went."""
    done = box.python(MAKE.format(wanted=wanted, call=call))
    assert done.status == 0, done.output
    return done.output.split()


def test_rare_sockets_do_not_exist_and_the_usual_ones_are_as_without_a_filter(home: Home) -> None:
    weak, strong = home.start(without=("seccomp",)), home.start()
    assert "ENOSYS" not in made(weak, BUILT_IN)  # the kernel is asked
    assert set(made(strong, RARE)) == {"ENOSYS"}
    assert "ENOSYS" not in (usual := made(weak, USUAL))
    assert made(strong, USUAL) == usual


def test_pairs_of_sockets_are_unix_ones(home: Home) -> None:
    weak, strong = home.start(without=("seccomp",)), home.start()
    others = [(TIPC, SEQUENCED, 0), (RDS, SEQUENCED, 0), (INET, STREAM, 0)]
    assert made(weak, others[-1:], "socketpair") != ["ENOSYS"]  # the kernel is asked
    assert set(made(strong, others, "socketpair")) == {"ENOSYS"}
    pairs = [(UNIX, STREAM, 0), (UNIX, DATAGRAM, 0), (UNIX, SEQUENCED, 0)]
    assert set(made(strong, pairs, "socketpair")) == {"made"}
