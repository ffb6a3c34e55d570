# SPDX-License-Identifier: Apache-2.0
"""Which system calls a sandbox may make, and the filter compiled from that.

Everything that is not listed is answered with ENOSYS, as on a kernel without it, so that programs
fall back. What is refused on purpose is answered with EPERM.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import hashlib
import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opensandbox_server.runtimes.oci.launcher.seccomp_calls import ALLOWED, DONE, REFUSED

_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_INT = 0xFFFFFFFF
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_INET_PROTOCOLS = (0, 1, 6, 17, 58, 262)
"""That of the type, ICMP, TCP, UDP, ICMPv6 and MPTCP; to ask for another loads its module."""
_NETLINK_PROTOCOLS = (0, 4)
"""Addresses and routes, which every resolver asks for, and sockets."""
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0x40000, _INT)
"""Linux, 32-bit reports, without address randomisation (debuggers), and the question alone."""

_SCMP_ACT_ALLOW = 0x7FFF0000
_SCMP_CMP_MASKED_EQ = 7
_SCMP_FLTATR_ACT_BADARCH, _SCMP_FLTATR_CTL_NNP, _SCMP_FLTATR_CTL_OPTIMIZE = 2, 3, 8
_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}


class SeccompUnavailable(Exception):
    """The filter cannot be compiled here."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The call is allowed when argument & mask == value."""

    argument: int
    mask: int
    value: int


CONDITIONAL: tuple[tuple[str, tuple[Condition, ...]], ...] = (
    ("clone", (Condition(0, _NEW_NAMESPACES, 0),)),
    ("socket", (Condition(0, _INT, _UNIX),)),
    *(
        ("socket", (Condition(0, _INT, family), Condition(2, _INT, protocol)))
        for family, protocols in (
            (_INET, _INET_PROTOCOLS),
            (_INET6, _INET_PROTOCOLS),
            (_NETLINK, _NETLINK_PROTOCOLS),
        )
        for protocol in protocols
    ),
    ("socketpair", (Condition(0, _INT, _UNIX),)),
    *(("personality", (Condition(0, _INT, persona),)) for persona in _PERSONALITIES),
)
"""A call is allowed when all conditions of one of its lines hold."""


def profile() -> dict[str, Any]:
    """Return the profile as `linux.seccomp` of an OCI config."""
    allow = "SCMP_ACT_ALLOW"
    conditional = [
        {
            "names": [name],
            "action": allow,
            "args": [
                {
                    "index": when.argument,
                    "value": when.mask,
                    "valueTwo": when.value,
                    "op": "SCMP_CMP_MASKED_EQ",
                }
                for when in conditions
            ],
        }
        for name, conditions in CONDITIONAL
    ]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.ENOSYS,
        "architectures": [_ARCHITECTURES[platform.machine()]],
        "syscalls": [
            {"names": list(ALLOWED), "action": allow},
            {"names": list(REFUSED), "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM},
            {"names": list(DONE), "action": "SCMP_ACT_ERRNO", "errnoRet": 0},
            *conditional,
        ],
    }


def compiled(cache: Path) -> bytes:
    """Return the filter as BPF, compiled once for each profile and machine and kept in cache."""
    text = json.dumps([profile(), platform.machine(), "1"], sort_keys=True)
    kept = cache / f"seccomp-{hashlib.sha256(text.encode()).hexdigest()[:32]}.bpf"
    try:
        return kept.read_bytes()
    except FileNotFoundError:
        program = compile_filter()
    cache.mkdir(parents=True, exist_ok=True)
    fresh = kept.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(program)
    fresh.replace(kept)
    return program


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


def compile_filter() -> bytes:
    """Compile the profile with libseccomp. Raises SeccompUnavailable."""
    if platform.machine() not in _ARCHITECTURES:
        raise SeccompUnavailable(f"there is no system call profile for {platform.machine()}")
    library = _load_library()
    context = library.seccomp_init(_errno_action(errno.ENOSYS))
    if not context:
        raise SeccompUnavailable("libseccomp refused to start a filter")
    try:
        return _export(library, _fill(library, context))
    finally:
        library.seccomp_release(ctypes.c_void_p(context))


def _load_library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    except OSError as error:
        raise SeccompUnavailable("libseccomp.so.2 is missing") from error
    library.seccomp_init.restype = ctypes.c_void_p
    return library


def _fill(library: ctypes.CDLL, context: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p(context)
    _set(library, handle, _SCMP_FLTATR_ACT_BADARCH, _errno_action(errno.ENOSYS))
    _set(library, handle, _SCMP_FLTATR_CTL_NNP, 0)
    _set(library, handle, _SCMP_FLTATR_CTL_OPTIMIZE, 2)
    _add(library, handle, _SCMP_ACT_ALLOW, ALLOWED)
    _add(library, handle, _errno_action(errno.EPERM), REFUSED)
    _add(library, handle, _errno_action(0), DONE)
    for name, conditions in CONDITIONAL:
        _add(library, handle, _SCMP_ACT_ALLOW, [name], conditions)
    return handle


def _set(library: ctypes.CDLL, handle: ctypes.c_void_p, attribute: int, value: int) -> None:
    result = library.seccomp_attr_set(handle, ctypes.c_int(attribute), ctypes.c_uint32(value))
    if result < 0:
        raise SeccompUnavailable(
            f"libseccomp refused attribute {attribute}: {os.strerror(-result)}"
        )


def _add(
    library: ctypes.CDLL,
    handle: ctypes.c_void_p,
    action: int,
    names: Iterable[str],
    conditions: Sequence[Condition] = (),
) -> None:
    comparisons = (_Comparison * len(conditions))(
        *(
            _Comparison(when.argument, _SCMP_CMP_MASKED_EQ, when.mask, when.value)
            for when in conditions
        )
    )
    for name in names:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            continue  # not a call of this architecture, or newer than libseccomp: ENOSYS
        result = library.seccomp_rule_add_array(
            handle,
            ctypes.c_uint32(action),
            number,
            ctypes.c_uint(len(conditions)),
            comparisons,
        )
        if result < 0:
            raise SeccompUnavailable(f"libseccomp refused {name}: {os.strerror(-result)}")


def _export(library: ctypes.CDLL, handle: ctypes.c_void_p) -> bytes:
    file = os.memfd_create("seccomp")
    try:
        result = library.seccomp_export_bpf(handle, ctypes.c_int(file))
        if result < 0:
            raise SeccompUnavailable(f"libseccomp cannot export: {os.strerror(-result)}")
        return os.pread(file, os.fstat(file).st_size, 0)
    finally:
        os.close(file)


def _errno_action(number: int) -> int:
    return 0x00050000 | number
