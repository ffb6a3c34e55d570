# SPDX-License-Identifier: Apache-2.0
"""Make namespaces.

A process of its own, because only a process with one thread may leave its user namespace, and
because a fork of something this small is cheap.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path

from opensandbox_server.runtimes.oci.launcher import syscalls
from opensandbox_server.runtimes.oci.launcher.passed import receive_descriptors
from opensandbox_server.runtimes.oci.network.interfaces import raise_interface

IDS_PER_RANGE = 65536


class Namespaces:
    """The parent's end of the process that makes namespaces."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            _serve(theirs)
        theirs.close()
        self._socket = ours
        self.pidfd = os.pidfd_open(self._pid)
        """Readable once it is gone. Another cannot be forked from a program with threads."""

    def make(self, first_id: int) -> tuple[int, int]:
        """Return descriptors of a user namespace and of a network namespace that it owns.

        Its 65536 ids are those from first_id on the host.
        """
        self._socket.send(str(first_id).encode())
        message, descriptors = receive_descriptors(self._socket, 4096, 2)
        if len(descriptors) != 2:
            for descriptor in descriptors:
                os.close(descriptor)
            raise OSError(message.decode(errors="replace") or "the process that makes them is gone")
        return descriptors[0], descriptors[1]

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        os.close(self.pidfd)
        os.waitpid(self._pid, 0)


def _serve(channel: socket.socket) -> None:
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while request := channel.recv(64):
            try:
                descriptors = _make(int(request))
            except OSError as error:
                channel.send(str(error).encode())
                continue
            socket.send_fds(channel, [b"ok"], descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
    finally:
        os._exit(0)  # whatever happened: what follows in this program is our parent's


def _make(first_id: int) -> list[int]:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()  # or it would never hear the end of the conversation
        _enter_namespaces(theirs, first_id)
    theirs.close()
    try:
        _expect(ours, b"user")
        mapping = f"0 {first_id} {IDS_PER_RANGE}\n"
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{pid}/{name}").write_text(mapping)
        ours.send(b"mapped")
        _expect(ours, b"net")
        with contextlib.ExitStack() as undo:
            descriptors = []
            for kind in ("user", "net"):
                descriptors.append(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY))
                undo.callback(os.close, descriptors[-1])
            undo.pop_all()
        return descriptors
    finally:
        ours.close()
        os.waitpid(pid, 0)


def _expect(channel: socket.socket, word: bytes) -> None:
    heard = channel.recv(256)
    if heard != word:
        raise OSError(f"namespaces: {heard.decode(errors='replace') or 'the child ended'}")


def _enter_namespaces(channel: socket.socket, owner: int) -> None:
    """Run in the child: step into new namespaces and wait until somebody has opened them."""
    try:
        # Whoever makes a user namespace pays for all in it that is counted per user. A sandbox
        # must not use up the inotify instances and the like of the host's root.
        syscalls.prctl(syscalls.PR_SET_SECUREBITS, syscalls.SECBIT_NO_SETUID_FIXUP)
        os.setresuid(-1, owner, -1)
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        channel.send(b"user")
        channel.recv(16)
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        syscalls.unshare(syscalls.CLONE_NEWNET)
        Path("/proc/sys/user/max_user_namespaces").write_text("0\n")
        raise_interface("lo")
        channel.send(b"net")
        channel.recv(1)
    except OSError as error:
        channel.send(str(error).encode()[:256])
    finally:
        os._exit(0)
