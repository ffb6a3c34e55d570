# SPDX-License-Identifier: Apache-2.0
"""The sandboxes of this host, in the launcher: start, stop, freeze, find again.

Everything here blocks and runs on the launcher's threads. Calls for one sandbox come one after
another; the server sees to that.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from opensandbox_server.runtimes.oci.bounds import Limits
from opensandbox_server.runtimes.oci.launcher import bundle, logs, rootfs
from opensandbox_server.runtimes.oci.launcher.cgroups.tree import Cgroups
from opensandbox_server.runtimes.oci.launcher.member import Member
from opensandbox_server.runtimes.oci.launcher.orphans import Orphans
from opensandbox_server.runtimes.oci.launcher.program import Program, empty_file
from opensandbox_server.runtimes.oci.launcher.records import (
    NotUnderstood,
    Record,
    boot_id,
    start_ticks,
    survey,
    write_record,
)
from opensandbox_server.runtimes.oci.launcher.set_aside import SetAside
from opensandbox_server.runtimes.oci.launcher.slots import Slot, Slots
from opensandbox_server.runtimes.oci.launcher.stage import Stage
from opensandbox_server.runtimes.oci.launcher.trash import Trash
from opensandbox_server.runtimes.oci.protocol import (
    Description,
    Inspected,
    LogRead,
    NotUnderstoodEntry,
    Start,
)

KILL_SECONDS = 10.0
"""How long a killed sandbox may go on without fewer processes than before."""

Config = Callable[[Start, bundle.Surroundings], dict[str, Any]]
"""What makes the config of a bundle: bundle.config."""


class Unknown(Exception):
    """There is no sandbox of that id."""


class Ended(Exception):
    """The sandbox has ended; what was asked needs a running one."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a start needs, made once."""

    stage: Stage
    program: Program
    cgroups: Cgroups
    logs: logs.Logs
    trash: Trash
    nameserver: str
    """The address sandboxes ask for names."""
    seccomp_profile: dict[str, Any] | None
    seccomp_filter: bytes | None
    config: Config


class Instances:
    """All sandboxes, by id."""

    def __init__(self, directory: Path, tools: Tools, watch: Callable[[int, str], None]) -> None:
        """Take the directory of all; watch gets a pidfd and the id of each that runs."""
        self._directory = directory
        self._tools = tools
        self._watch = watch
        self._members: dict[str, Member] = {}
        self._set_aside: dict[str, SetAside] = {}
        self._slots: Slots | None = None
        self._orphans = Orphans(self._first_processes)

    def find(self, slot_of: Callable[[int], int | None]) -> list[int]:
        """Find what a former launcher started; return the slots that are in use.

        What is not understood is left as it is, and so is the slot whose ids its files have.
        """
        for entry, found in survey(self._directory, self._has_processes):
            if isinstance(found, NotUnderstood):
                since = entry.lstat().st_mtime
                self._set_aside[entry.name] = SetAside(entry, str(found), found.is_sandbox, since)
            elif found is None or not found.pid:
                self._discard(entry, found)
            else:
                self._find(Member(found, entry))
        kept = [slot_of(each.owner) for each in self._set_aside.values()]
        slots = [m.record.slot for m in self._members.values() if not m.record.has_ended]
        return slots + [slot for slot in kept if slot is not None]

    def not_understood(self) -> list[NotUnderstoodEntry]:
        """Tell what was found and is left as it is."""
        return [
            NotUnderstoodEntry(name, each.why) for name, each in sorted(self._set_aside.items())
        ]

    def use(self, slots: Slots) -> None:
        """Take the slots, which are made after the running sandboxes were found."""
        self._slots = slots

    def start(self, start: Start, listener: int) -> Description:
        """Start a sandbox; when it fails nothing of it is left."""
        slots = self._need_slots()
        slot = slots.take()
        directory = self._directory / start.spec.id
        record = Record(
            id=start.spec.id,
            image=start.spec.image,
            slot=slot.index,
            socket=start.socket,
            runner=self._tools.program.name,
            created=time.time(),
            cgroup=start.spec.id,
            limits=asdict(start.limits),
        )
        try:
            with self._orphans.spared(), contextlib.ExitStack() as undo:
                undo.callback(slots.give_back, slot.index)
                undo.callback(self._tools.trash.put, slot.directory)
                self._make(start, record, slot, directory, listener, undo)
                undo.pop_all()
        finally:
            slot.release_namespaces()
            self._tools.stage.clear(start.spec.id)
            self._orphans.reap()
        return self.describe(self._members[start.spec.id])

    def stop(self, name: str) -> None:
        """End a sandbox and put everything of it into the trash; an unknown one is no error."""
        member = self._members.get(name)
        if member is None:
            self._stop_set_aside(name)
            return
        with member.lock:
            if not member.record.has_ended:
                self._kill(member)
                member.record.has_ended = True
                member.forget_process()
                self._give_back(member)
            self._tools.logs.forget(name)
            self._tools.trash.put(member.directory)
            self._members.pop(name, None)

    def pause(self, name: str) -> None:
        """Freeze."""
        self._tools.cgroups.freeze(self._running(name).record.cgroup)

    def resume(self, name: str) -> Description:
        """Thaw."""
        member = self._running(name)
        self._tools.cgroups.thaw(member.record.cgroup)
        return self.describe(member)

    def update(self, name: str, limits: Limits | None) -> Description:
        """Give it other limits, or leave it as it was."""
        member = self._known(name)
        with member.lock:
            self._running(name)
            if limits is not None:
                self._limit(member, limits)
            return self.describe(member)

    def all(self) -> list[Description]:
        """Describe every sandbox, and what may be one."""
        aside = [each.describe() for each in list(self._set_aside.values()) if each.is_sandbox]
        return [self.describe(member) for member in list(self._members.values())] + aside

    def read_log(self, name: str, since: int, most: int, *, is_followed: bool) -> LogRead:
        """Read some of its output."""
        directory = self._known(name).directory
        read = self._tools.logs.read(name, directory, since, most, is_followed=is_followed)
        return LogRead(*read)

    def inspect(self, name: str, log_bytes: int) -> Inspected:
        """Describe one, with the end of its log."""
        member = self._known(name)
        kept = logs.read_log(member.directory, log_bytes)
        details = {"image": member.record.image, "program": member.record.runner}
        return Inspected(self.describe(member), kept.decode(errors="replace"), details)

    def describe(self, member: Member) -> Description:
        """Return what the server is told of one."""
        record = member.record
        is_paused = not record.has_ended and self._tools.cgroups.is_frozen(record.cgroup)
        return Description(
            id=record.id,
            state="exited" if record.has_ended else "paused" if is_paused else "running",
            socket=record.socket,
            created=record.created,
            exit_code=record.exit_code,
            reason=record.reason,
            limits=_limits_of(record),
        )

    def ended(self, name: str) -> Description | None:
        """Note that the first process of a sandbox is gone; None when it was stopped."""
        member = self._members.get(name)
        if member is None:
            return None
        with member.lock:
            if member.record.has_ended:
                return None
            code = member.exit_code()
            kills = self._tools.cgroups.memory_kills(member.record.cgroup)
            out_of_memory = kills and code in (None, 137)
            reason = "it ran out of memory" if out_of_memory else "it ended by itself"
            self._note_end(member, code, reason)
            member.forget_process()
            self._give_back(member)
            self._tools.logs.forget(name)
            return self.describe(member)

    @property
    def is_empty(self) -> bool:
        """True when no sandbox runs, nor what may be one."""
        if any(each.owner > 0 for each in self._set_aside.values()):
            return False
        return all(member.record.has_ended for member in self._members.values())

    def _make(
        self,
        start: Start,
        record: Record,
        slot: Slot,
        directory: Path,
        listener: int,
        undo: contextlib.ExitStack,
    ) -> None:
        tools = self._tools
        slot.directory.rename(directory)
        undo.callback(tools.trash.put, directory)
        write_record(directory, record)  # from here on it is known for a start of ours
        # Opened on the stage: the sandbox sees the path in /proc/1/fd.
        output = logs.open_pipe(tools.stage.sandboxes / start.spec.id)
        undo_output = undo.enter_context(contextlib.ExitStack())
        undo_output.callback(os.close, output)
        tools.logs.follow(start.spec.id, directory)
        undo.callback(tools.logs.forget, start.spec.id)
        undo.callback(tools.cgroups.remove, record.cgroup)
        undo.callback(tools.cgroups.kill, record.cgroup)
        tools.cgroups.make(record.cgroup, start.limits)
        bundle_dir = self._prepare_bundle(start, slot, directory)
        with empty_file() as nothing, tools.cgroups.opened_entrance(record.cgroup) as entrance:
            files = {0: nothing, 1: output, 2: output, 3: listener, 4: entrance}
            record.pid = self._run_in_cgroup(start, record, bundle_dir, files)
        member = Member(record, directory, os.pidfd_open(record.pid))
        undo.callback(member.forget_process)
        record.start_ticks, record.boot = start_ticks(record.pid), boot_id()
        write_record(directory, record)
        undo_output.close()
        undo.callback(self._members.pop, start.spec.id, None)
        self._members[start.spec.id] = member
        self._watch(os.dup(member.pidfd), start.spec.id)

    def _prepare_bundle(self, start: Start, slot: Slot, directory: Path) -> Path:
        tools = self._tools
        bundle_dir = tools.stage.bundle_dir(start.spec.id)
        address = slot.address if start.spec.has_network else None
        nameserver = tools.nameserver if start.spec.has_network else None
        if not start.spec.has_network:
            self._need_slots().unplug(slot)
        rootfs.write_etc(directory, bundle.hostname(start.spec), address, nameserver)
        upper = str(tools.stage.sandboxes / start.spec.id)
        root = rootfs.mount_rootfs(
            str(start.image.rootfs), upper, bundle_dir, slot.userns, slot.first_id
        )
        around = bundle.Surroundings(
            rootfs=str(root),
            execd=str(tools.stage.execd),
            userns=f"/proc/{os.getpid()}/fd/{slot.userns}",
            netns=f"/proc/{os.getpid()}/fd/{slot.netns}",
            first_id=slot.first_id,
            shared=tools.stage.show(start.image.host_paths, start.image.packs),
            seccomp=tools.seccomp_profile,
            filter=tools.seccomp_filter,
            cgroup=f"/{tools.cgroups.path(start.spec.id)}" if self._program_makes_cgroup else None,
            views={place: str(own) for place, own in tools.cgroups.views(start.spec.id).items()},
        )
        (bundle_dir / "config.json").write_text(json.dumps(tools.config(start, around)))
        return bundle_dir

    @property
    def _program_makes_cgroup(self) -> bool:
        return self._tools.program.needs_own_cgroup(is_v1=self._tools.cgroups.is_entered_by_us)

    def _run_in_cgroup(
        self, start: Start, record: Record, bundle_dir: Path, files: dict[int, int]
    ) -> int:
        """Spawn from a thread of its own, which enters the cgroup first and ends there."""
        makes_cgroup = self._program_makes_cgroup
        divide = partial(self._tools.cgroups.divide, record.cgroup, start.limits)
        results: list[int] = []
        faults: list[Exception] = []

        def run() -> None:
            try:
                if not makes_cgroup:
                    self._tools.cgroups.enter(record.cgroup)
                started = self._tools.program.run(
                    start.spec.id, bundle_dir, files, makes_cgroup=makes_cgroup, divide=divide
                )
                results.append(started)
            except Exception as fault:  # noqa: BLE001  # raised again by the caller
                faults.append(fault)

        thread = threading.Thread(target=run, name=f"run {start.spec.id}")
        thread.start()
        thread.join()
        if faults:
            raise faults[0]
        return results[0]

    def _limit(self, member: Member, limits: Limits) -> None:
        """Remember first: what is not remembered does not hold, on a full disk either."""
        record, before = member.record, member.record.limits
        record.limits = asdict(limits)
        try:
            write_record(member.directory, record)
            self._tools.cgroups.change(record.cgroup, limits)
        except BaseException:
            record.limits = before
            with contextlib.suppress(OSError):
                write_record(member.directory, record)
            raise

    def _find(self, member: Member) -> None:
        self._members[member.record.id] = member
        if member.record.is_alive():
            self._adopt(member)
        elif not member.record.has_ended:
            self._note_missed_end(member)

    def _adopt(self, member: Member) -> None:
        try:
            member.pidfd = os.pidfd_open(member.record.pid)
        except ProcessLookupError:
            self._note_missed_end(member)
            return
        if not member.record.is_alive():  # its number went to another process
            member.forget_process()
            self._note_missed_end(member)
            return
        self._tools.logs.follow(member.record.id, member.directory)
        self._watch(os.dup(member.pidfd), member.record.id)

    def _discard(self, directory: Path, record: Record | None) -> None:
        """Remove a sandbox whose start was cut off."""
        name = record.cgroup if record else directory.name
        self._tools.cgroups.kill(name)
        self._tools.cgroups.remove(name)
        if record:
            Path(record.socket).unlink(missing_ok=True)
        self._tools.trash.put(directory)

    def _stop_set_aside(self, name: str) -> None:
        """End what is not understood only because its owner, who knows its id, asks for it."""
        found = self._set_aside.get(name)
        if found is None or not found.is_sandbox:
            return
        self._tools.cgroups.kill(name)
        self._tools.cgroups.remove(name)
        self._tools.trash.put(found.directory)
        self._set_aside.pop(name, None)

    def _has_processes(self, name: str) -> bool:
        return bool(self._tools.cgroups.processes(name))

    def _kill(self, member: Member) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(member.pidfd, signal.SIGKILL)
        cgroup = member.record.cgroup
        if self._tools.cgroups.is_frozen(cgroup):
            self._tools.cgroups.thaw(cgroup)
        poll = select.poll()
        poll.register(member.pidfd, select.POLLIN)
        left = len(self._tools.cgroups.processes(cgroup))
        while not poll.poll(KILL_SECONDS * 1000):  # thousands may need more on a busy machine
            before, left = left, len(self._tools.cgroups.processes(cgroup))
            if left >= before:
                raise TimeoutError(f"{member.record.id} does not end: one is stuck in the kernel")
        member.exit_code()

    def _give_back(self, member: Member) -> None:
        self._remove_remains(member.record)
        self._need_slots().give_back(member.record.slot)
        self._orphans.reap()

    def _note_missed_end(self, member: Member) -> None:
        self._remove_remains(member.record)
        self._note_end(member, None, "it ended while no server was looking")

    def _remove_remains(self, record: Record) -> None:
        self._tools.cgroups.kill(record.cgroup)
        self._tools.cgroups.remove(record.cgroup)
        Path(record.socket).unlink(missing_ok=True)

    def _note_end(self, member: Member, code: int | None, reason: str) -> None:
        member.record.has_ended, member.record.exit_code, member.record.reason = True, code, reason
        with contextlib.suppress(OSError):  # no room: the next launcher sees that it has ended
            write_record(member.directory, member.record)

    def _first_processes(self) -> set[int]:
        return {member.record.pid for member in list(self._members.values())}

    def _known(self, name: str) -> Member:
        try:
            return self._members[name]
        except KeyError:
            raise Unknown(f"there is no sandbox {name}") from None

    def _running(self, name: str) -> Member:
        member = self._known(name)
        if member.record.has_ended:
            raise Ended(f"sandbox {name} has ended: {member.record.reason}")
        return member

    def _need_slots(self) -> Slots:
        if self._slots is None:
            raise RuntimeError("find() and use() come first")
        return self._slots


def _limits_of(record: Record) -> Limits:
    known = {each.name for each in fields(Limits)}  # a newer version may have more
    return Limits(**{name: value for name, value in record.limits.items() if name in known})
