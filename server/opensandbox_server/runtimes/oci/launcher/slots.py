# SPDX-License-Identifier: Apache-2.0
"""Slots: what a sandbox needs that is slow to make, made ahead by one thread.

A slot is a private range of ids, a user namespace, a network namespace it owns, a link and an
address. A slot is used once; its address and range rest at the end of the line before they are
used again.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from opensandbox_server.runtimes.oci.launcher import logs
from opensandbox_server.runtimes.oci.launcher.namespaces import Namespaces
from opensandbox_server.runtimes.oci.launcher.records import remove_tree
from opensandbox_server.runtimes.oci.launcher.rootfs import make_directory
from opensandbox_server.runtimes.oci.network.network import Network
from opensandbox_server.runtimes.oci.network.nft import NetworkFault

UPKEEP_SECONDS = 15.0
"""How long packets may be lost after a Docker engine started: its firewall drops them."""
QUIET_SECONDS = 0.1
"""How long the maker leaves the processors to the start that took a slot, while enough are left."""
TAKE_SECONDS = 30.0
"""How long a start waits for a slot when more are taken than made."""


class SlotsExhausted(Exception):
    """No slot could be had; the message says why."""


@dataclass(slots=True)
class Slot:
    """The namespaces are held by descriptor: nothing is left of them when they are closed."""

    index: int
    first_id: int
    address: str
    userns: int
    netns: int
    directory: Path
    """Becomes the directory of the sandbox."""

    def release_namespaces(self) -> None:
        """Close the descriptors; a sandbox keeps what it uses."""
        for descriptor in (self.userns, self.netns):
            if descriptor >= 0:
                os.close(descriptor)
        self.userns = self.netns = -1


class Slots:
    """Keeps a number of slots ready."""

    def __init__(
        self,
        namespaces: Namespaces,
        network: Network,
        sandboxes: Path,
        ahead: int,
        taken: Iterable[int],
    ) -> None:
        """Leave out the indexes that running sandboxes have."""
        self._namespaces = namespaces
        self._sandboxes = sandboxes
        self._network = network
        self._ahead = ahead
        self._out = set(taken)
        self._free = collections.deque(sorted(set(network.block.indexes) - self._out))
        self._ready: collections.deque[Slot] = collections.deque()
        self._changed = threading.Condition()
        self._fault: Exception | None = None
        self._waiting = 0
        self._is_closing = False
        self._next_upkeep = time.monotonic() + UPKEEP_SECONDS
        self._maker = threading.Thread(target=self._make_ahead, name="slots", daemon=True)

    def open(self) -> None:
        """Begin to make slots; return when the first is ready, or when it failed."""
        self._maker.start()
        with self._changed:  # a start meets the fault again, and says it to whoever asked for it
            self._changed.wait_for(lambda: self._ready or self._fault, TAKE_SECONDS)

    def take(self) -> Slot:
        """Return a slot nobody had. Raises SlotsExhausted."""
        with self._changed:
            self._waiting += 1
            self._fault = None
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._ready or self._fault, TAKE_SECONDS)
            finally:
                self._waiting -= 1
            if not self._ready:
                raise SlotsExhausted(f"no namespaces for another sandbox: {self._why()}")
            slot = self._ready.popleft()
            self._out.add(slot.index)
            self._changed.notify_all()
            return slot

    def unplug(self, slot: Slot) -> None:
        """Take the network from a slot: its namespace keeps only the loopback interface."""
        self._network.disconnect(slot.index)

    def give_back(self, index: int) -> None:
        """Remove what is left of a used slot; its index may be used again, last of all.

        Once: were it free twice, two sandboxes would share their ids and their address.
        """
        with self._changed:
            if index not in self._out:
                return
        self._network.disconnect(index)
        with contextlib.suppress(NetworkFault):  # who gets the address next meets it again
            self._network.forget_connections(index)
        with self._changed:
            if index not in self._out:
                return
            self._out.remove(index)
            self._free.append(index)
            self._changed.notify_all()

    def close(self) -> None:
        """Stop making slots and drop those nobody took."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._maker.join()
        for slot in self._ready:
            self._network.disconnect(slot.index)
            slot.release_namespaces()
            remove_tree(slot.directory)

    def _why(self) -> str:
        return str(self._fault) if self._fault else "they are not made fast enough"

    def _is_wanted(self) -> bool:
        wanted = len(self._ready) < self._ahead + self._waiting
        return self._is_closing or (wanted and bool(self._free) and self._fault is None)

    def _is_urgent(self) -> bool:
        return self._is_closing or self._waiting > 0 or len(self._ready) < self._ahead / 2

    def _make_ahead(self) -> None:
        while True:
            self._keep_up()
            with self._changed:
                is_wanted = self._changed.wait_for(self._is_wanted, UPKEEP_SECONDS)
                if self._is_closing:
                    return
                if not is_wanted:
                    continue
                self._changed.wait_for(self._is_urgent, QUIET_SECONDS)
                if self._is_closing:
                    return
                index = self._free.popleft()
            try:
                slot = self._make(index)
            except Exception as fault:  # noqa: BLE001  # told to whoever waits for a slot
                with self._changed:
                    self._fault = fault
                    self._free.append(index)
                    self._changed.notify_all()
                continue
            with self._changed:
                self._ready.append(slot)
                self._changed.notify_all()

    def _keep_up(self) -> None:
        now = time.monotonic()
        if now >= self._next_upkeep:
            self._next_upkeep = now + UPKEEP_SECONDS
            with contextlib.suppress(Exception):  # the next start or upkeep meets it again
                self._network.keep_up()

    def _make(self, index: int) -> Slot:
        block = self._network.block
        first_id = block.first_id(index)
        directory = self._sandboxes / f".ahead-{index}"
        userns, netns = self._namespaces.make(first_id)
        slot = Slot(index, first_id, str(block.address(index)), userns, netns, directory)
        with contextlib.ExitStack() as undo:
            undo.callback(slot.release_namespaces)
            undo.callback(self._network.disconnect, index)
            self._network.connect(index, netns)
            undo.callback(remove_tree, directory)
            make_directory(directory, first_id)
            logs.make_pipe(directory, first_id)
            undo.pop_all()
        return slot
