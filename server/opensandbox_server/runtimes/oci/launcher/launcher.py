# SPDX-License-Identifier: Apache-2.0
"""The launcher: a process beside the server that does for it whatever blocks.

It lives as long as the server and speaks with it over one inherited socket (`protocol.py`). It does
namespaces, mounts, cgroups, starts of the OCI runtime and logs. Sandboxes outlive it; the next one
finds them again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import socket
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from opensandbox_server.host.full_disk import explain
from opensandbox_server.runtimes.oci import protocol
from opensandbox_server.runtimes.oci.bounds import Limits
from opensandbox_server.runtimes.oci.launcher import bundle, seccomp, syscalls
from opensandbox_server.runtimes.oci.launcher.cgroups.cgroups import find_cgroups
from opensandbox_server.runtimes.oci.launcher.cgroups.tree import Cgroups
from opensandbox_server.runtimes.oci.launcher.instances import (
    Config,
    Ended,
    Instances,
    Tools,
    Unknown,
)
from opensandbox_server.runtimes.oci.launcher.logs import Logs
from opensandbox_server.runtimes.oci.launcher.namespaces import Namespaces
from opensandbox_server.runtimes.oci.launcher.program import find_oci_program
from opensandbox_server.runtimes.oci.launcher.rlimits import set_inherited_limits
from opensandbox_server.runtimes.oci.launcher.rootfs import spread
from opensandbox_server.runtimes.oci.launcher.stage import Stage
from opensandbox_server.runtimes.oci.launcher.trash import Trash

_KINDS = {Unknown: "unknown", Ended: "ended"}


class Launcher:
    """Answers the server's requests until its end of the socket is closed."""

    def __init__(
        self, channel: socket.socket, setup: protocol.Setup, config: Config = bundle.config
    ) -> None:
        """Take the socket, what the server said first, and what makes the config of a bundle."""
        self._config = config
        self._channel = channel
        self._setup = setup
        self._sending = threading.Lock()
        self._selector = selectors.EpollSelector()
        self._undo = contextlib.ExitStack()
        self._starts = ThreadPoolExecutor(setup.concurrent_starts, "start")
        self._others = ThreadPoolExecutor(4, "other")
        self._updates = ThreadPoolExecutor(1, "update")  # a sandbox can make them last

    def open(self) -> None:
        """Make everything ready; only then threads are started."""
        setup = self._setup
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        set_inherited_limits()
        sandboxes = Path(setup.data_dir) / "sandboxes"
        spread(sandboxes)
        self._wait_for_former_launcher()
        stage = Stage()
        program = find_oci_program(setup.program, stage.runtime_state).sealed()
        cgroups = find_cgroups(setup.cgroup, Path("/proc/self/mountinfo").read_text())
        seccomp_filter = None
        if program.takes_compiled_seccomp:
            seccomp_filter = seccomp.compiled(Path(setup.data_dir) / "cache")
        self._namespaces = namespaces = Namespaces()
        self._undo.callback(namespaces.close)
        cgroups.open(Limits(memory_bytes=setup.memory_bytes, pids=setup.pids))
        stage.open(Path(setup.execd), sandboxes)
        network = self._open_network()
        logs = Logs(self._tell_logged)
        self._undo.callback(logs.close)
        trash = Trash(sandboxes)
        tools = Tools(
            stage=stage,
            program=program,
            cgroups=cgroups,
            logs=logs,
            trash=trash,
            nameserver=str(network.block.gateway),
            seccomp_profile=None if seccomp_filter else seccomp.profile(),
            seccomp_filter=seccomp_filter,
            config=self._config,
        )
        self.instances = Instances(sandboxes, tools, self._watch)
        from opensandbox_server.runtimes.oci.launcher.slots import Slots

        taken = self.instances.find(network.block.slot_of)
        trash.open()
        slots = Slots(namespaces, network, sandboxes, setup.slots_ahead, taken)
        self.instances.use(slots)
        self._undo.callback(self._close_network, network, cgroups)
        self._undo.callback(trash.close)  # before, for what empties it is in those cgroups
        slots.open()
        self._undo.callback(slots.close)

    def serve(self) -> None:
        """Answer until the server is gone, or something that cannot be made again here."""
        for pool in (self._starts, self._others, self._updates):
            start_threads(pool)
        self._selector.register(self._channel, selectors.EVENT_READ)
        self._selector.register(self._namespaces.pidfd, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fd == self._namespaces.pidfd:
                    print("the process that makes namespaces is gone", file=sys.stderr, flush=True)
                    return
                if key.data is not None:
                    self._selector.unregister(key.fd)
                    self._others.submit(self._tell_end, key.fd, key.data)
                    continue
                try:
                    request, descriptors = protocol.receive(self._channel)
                except EOFError:
                    return
                self._dispatch(request, descriptors)

    def close(self) -> None:
        """Finish what runs, then release what was made; sandboxes go on."""
        self._starts.shutdown()
        self._others.shutdown()
        self._updates.shutdown()
        self._undo.close()

    def _wait_for_former_launcher(self) -> None:
        """Let the launcher of a killed server finish: it removes what it made ahead."""
        lock = os.open(Path(self._setup.data_dir) / "launcher.lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self._undo.callback(os.close, lock)

    def _open_network(self) -> Any:
        # Imported after the process that makes namespaces was forked: its children need none of it.
        from opensandbox_server.runtimes.oci.network.network import Network, claim_block
        from opensandbox_server.runtimes.oci.network.rules import NetworkOptions

        setup = self._setup
        block, claim = claim_block(
            Path(setup.data_dir) / "network.json", setup.data_dir, IPv4Network(setup.subnet)
        )
        self._claim = claim
        self._undo.callback(claim.close)
        network = Network(block, NetworkOptions(**setup.network))
        network.open()
        return network

    def _close_network(self, network: Any, cgroups: Cgroups) -> None:
        if self.instances.is_empty:
            network.close()
            cgroups.close()
            self._claim.forget()

    def _watch(self, pidfd: int, name: str) -> None:
        self._selector.register(pidfd, selectors.EVENT_READ, name)

    def _tell_end(self, pidfd: int, name: str) -> None:
        try:
            ended = self.instances.ended(name)
        except Exception:  # noqa: BLE001  # its end is news, whatever is left of it
            traceback.print_exc()
            known = (each for each in self.instances.all() if each.id == name)
            ended = next((each for each in known if each.state == "exited"), None)
        finally:
            os.close(pidfd)
        if ended is not None:
            self._send({"event": protocol.to_plain(ended)})

    def _tell_logged(self, name: str) -> None:
        self._send({"logged": name})

    def _dispatch(self, message: dict[str, Any], descriptors: list[int]) -> None:
        pool = self._others
        if protocol.is_a(protocol.Start, message):
            pool = self._starts
        elif protocol.is_a(protocol.Update, message):
            pool = self._updates
        pool.submit(self._answer, message, descriptors)

    def _answer(self, message: dict[str, Any], descriptors: list[int]) -> None:
        seq = message["seq"]
        try:
            result = protocol.to_plain(self._do(protocol.verb_of(message), descriptors))
            answer = {"seq": seq, "result": result}
        except Exception as fault:  # noqa: BLE001  # the server is told
            kind = _KINDS.get(type(fault), "failed")
            answer = {"seq": seq, "error": explain(fault), "kind": kind}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._send(answer)

    def _do(self, verb: protocol.Verb[Any], descriptors: list[int]) -> Any:
        instances = self.instances
        match verb:
            case protocol.Start():
                (listener,) = descriptors
                return instances.start(verb, listener)
            case protocol.Stop(id=name):
                return instances.stop(name)
            case protocol.Pause(id=name):
                return instances.pause(name)
            case protocol.Resume(id=name):
                return instances.resume(name)
            case protocol.Update(id=name, limits=limits):
                return instances.update(name, limits)
            case protocol.ReadLog(id=name):
                return instances.read_log(name, verb.since, verb.most, is_followed=verb.is_followed)
            case protocol.Inspect(id=name, log_bytes=count):
                return instances.inspect(name, count)
            case protocol.ListAll():
                return instances.all()
            case protocol.ListNotUnderstood():
                return instances.not_understood()

    def _send(self, message: dict[str, Any]) -> None:
        with self._sending, contextlib.suppress(BrokenPipeError):
            protocol.send(self._channel, message)


def start_threads(pool: ThreadPoolExecutor) -> None:
    """Start every thread of a pool now: later there may be none to be had, and no answer then."""
    size = pool._max_workers  # it has no public name
    together = threading.Barrier(size)  # so that none is idle when the next is asked for
    for _ in range(size):
        pool.submit(together.wait)
