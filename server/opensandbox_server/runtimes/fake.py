# SPDX-License-Identifier: Apache-2.0
"""A runtime for tests: no isolation at all.

With an execd program each instance is a real process in a directory of its own, so commands, files
and ports work, it survives the server, and it can be found again. Without one an instance is only
a record in memory. Images are names, and some of them mean trouble: `unknown…` is not here,
`broken…` does not start.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from opensandbox_server.runtimes.base import (
    ExecdAddress,
    Finding,
    ImageUnknown,
    Inspection,
    Instance,
    InstanceState,
    InstanceUnknown,
    Runtime,
    RuntimeEvent,
    RuntimeHome,
    SandboxSpec,
    StartFailed,
    WrongState,
)
from opensandbox_server.runtimes.process_tree import processes_naming, signal_tree, start_time
from opensandbox_server.sockets import listen_unix
from opensandbox_server.spawn import Child, adopt, spawn

LOG_BYTES = 256 * 1024
"""How much of the entrypoint's output is shown."""

_IN_DIRECTORY = 'cd "$1" && shift && exec "$@"'


@dataclass(slots=True)
class _Process:
    instance: Instance
    image: str
    child: Child | None = None


class FakeRuntime(Runtime):
    """Instances that are processes of the server's own user, or nothing at all."""

    name = "fake"

    def __init__(self, home: RuntimeHome) -> None:
        """Take the home; prepare looks into it."""
        if unknown := set(home.options):
            raise ValueError(f"{', '.join(sorted(unknown))}: unknown key; [fake] has none")
        self._home = home
        self._processes: dict[str, _Process] = {}
        self._watchers: set[asyncio.Queue[RuntimeEvent]] = set()

    async def doctor(self) -> Sequence[Finding]:
        """Say whether commands will work."""
        found = self._home.execd
        message = "execd was found" if found else "no execd: sandboxes answer no requests"
        return [Finding("execd", found is not None, message, "" if found else "make build")]

    async def prepare(self) -> None:
        """Find the instances a former process started."""
        self._sockets.mkdir(mode=0o750, exist_ok=True)
        if self._home.ingress_gid is not None:
            os.chown(self._sockets, -1, self._home.ingress_gid)
        self._files.mkdir(mode=0o700, exist_ok=True)
        await asyncio.to_thread(self._remove_half_made)
        for record in sorted(self._files.glob("*/instance.json")):
            self._find_again(record)

    async def close(self) -> None:
        """Leave the instances running."""
        for process in self._processes.values():
            if process.child:
                process.child.forget()

    async def start(self, spec: SandboxSpec) -> Instance:
        """Make an instance."""
        if spec.image.startswith("unknown"):
            raise ImageUnknown(f"image {spec.image} is not here; try any other name")
        if spec.image.startswith("broken"):
            raise StartFailed(f"image {spec.image} never starts")
        address = ExecdAddress(socket=self._sockets / spec.id / "execd.sock")
        instance = Instance(spec.id, InstanceState.RUNNING, address, datetime.now(UTC))
        process = _Process(instance, spec.image)
        if self._home.execd:
            try:
                process.child = self._spawn(spec, self._home.execd, instance)
            except BaseException:
                await self.stop(spec.id)
                raise
            process.child.when_ended(lambda status: self.exit(spec.id, status))
        self._processes[spec.id] = process
        return instance

    async def stop(self, instance_id: str) -> None:
        """End the process tree and remove its directories."""
        process = self._processes.pop(instance_id, None)
        if process and process.child and not process.child.has_ended:
            await asyncio.to_thread(signal_tree, process.child.pid, signal.SIGKILL)
            await process.child.wait()
        for directory in (self._sockets / instance_id, self._files / instance_id):
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def pause(self, instance_id: str) -> None:
        """Stop every process of the tree."""
        await self._change(instance_id, InstanceState.PAUSED, signal.SIGSTOP)

    async def resume(self, instance_id: str) -> None:
        """Let every process of the tree go on."""
        await self._change(instance_id, InstanceState.RUNNING, signal.SIGCONT)

    async def instances(self) -> Sequence[Instance]:
        """Return all of them."""
        return [process.instance for process in self._processes.values()]

    async def inspect(self, instance_id: str) -> Inspection:
        """Return one with what its entrypoint wrote."""
        process = self._get(instance_id)
        logs = await asyncio.to_thread(_tail, self._files / instance_id / "log")
        return Inspection(process.instance, logs, {"runtime": self.name, "image": process.image})

    def watch(self) -> AsyncIterator[RuntimeEvent]:
        """Tell of instances that end by themselves."""
        queue: asyncio.Queue[RuntimeEvent] = asyncio.Queue()
        self._watchers.add(queue)
        return self._drain(queue)

    def exit(self, instance_id: str, status: int | None) -> None:
        """Let an instance end by itself, as when its entrypoint returns."""
        process = self._processes.get(instance_id)
        if process is None:
            return  # it was stopped, which is no news
        code = status if status is None or status >= 0 else 128 - status
        process.instance = replace(process.instance, state=InstanceState.EXITED, exit_code=code)
        for queue in self._watchers:
            queue.put_nowait(RuntimeEvent(process.instance))

    @property
    def _sockets(self) -> Path:
        return self._home.run_dir / "sandboxes"

    @property
    def _files(self) -> Path:
        return self._home.data_dir / "sandboxes"

    def _get(self, instance_id: str) -> _Process:
        if instance_id not in self._processes:
            raise InstanceUnknown(f"there is no instance {instance_id}")
        return self._processes[instance_id]

    async def _change(self, instance_id: str, state: InstanceState, number: signal.Signals) -> None:
        process = self._get(instance_id)
        if process.instance.state == InstanceState.EXITED:
            raise WrongState(f"instance {instance_id} has exited")
        if process.child:
            await asyncio.to_thread(signal_tree, process.child.pid, number)
        if not (process.child and process.child.has_ended):
            process.instance = replace(process.instance, state=state)

    async def _drain(self, queue: asyncio.Queue[RuntimeEvent]) -> AsyncIterator[RuntimeEvent]:
        try:
            while True:
                yield await queue.get()
        finally:
            self._watchers.discard(queue)

    def _spawn(self, spec: SandboxSpec, execd: Path, instance: Instance) -> Child:
        assert instance.execd.socket is not None
        files, sockets = self._files / spec.id, instance.execd.socket.parent
        for directory in (files, files / "work", files / "state", sockets):
            directory.mkdir(mode=0o750)
        gid = self._home.ingress_gid
        if gid is not None:
            os.chown(sockets, -1, gid)
        listener = listen_unix(instance.execd.socket, mode=0o660, gid=gid)
        try:
            child = self._run(spec, execd, files, listener.fileno())
        except OSError as fault:
            raise StartFailed(f"execd cannot be started: {fault.strerror}") from fault
        finally:
            listener.close()
        record = {"pid": child.pid, "start": start_time(child.pid), "image": spec.image}
        record["started_at"] = instance.started_at.isoformat()
        written = files / "instance.json.new"
        written.write_text(json.dumps(record))
        written.rename(files / "instance.json")  # there whole or not at all
        return child

    def _run(self, spec: SandboxSpec, execd: Path, files: Path, listener: int) -> Child:
        work = files / "work"
        argv: list[str | Path] = [
            "/bin/sh",
            "-c",
            _IN_DIRECTORY,
            "sh",
            work,
            execd,
            "--listen",
            "fd://3",
        ]
        argv += ["--access-token-fd", "4", "--state-dir", files / "state", "--", *spec.entrypoint]
        env = {
            "PATH": f"/usr/local/bin:{os.defpath}",
            "HOME": str(work),
            "EXECD_ENVS": str(files / "env"),
        }
        readable, writable = os.pipe()
        log = os.open(files / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.write(writable, spec.execd_token.encode())
            fds = {0: nothing, 1: log, 2: log, 3: listener, 4: readable}
            return spawn(argv, env | dict(spec.env), fds=fds, has_own_session=True)
        finally:
            for descriptor in (readable, writable, log, nothing):
                os.close(descriptor)

    def _remove_half_made(self) -> None:
        """Remove what a process that was killed in the middle of a start left."""
        for directory in self._files.iterdir():
            if (directory / "instance.json").exists():
                continue
            for pid in processes_naming(str(directory)):
                signal_tree(pid, signal.SIGKILL)
            for left in (directory, self._sockets / directory.name):
                shutil.rmtree(left, ignore_errors=True)

    def _find_again(self, record: Path) -> None:
        kept = json.loads(record.read_text())
        instance_id = record.parent.name
        address = ExecdAddress(socket=self._sockets / instance_id / "execd.sock")
        began = datetime.fromisoformat(kept["started_at"])
        process = _Process(
            Instance(instance_id, InstanceState.RUNNING, address, began), kept["image"]
        )
        self._processes[instance_id] = process
        if start_time(kept["pid"]) != kept["start"]:
            process.instance = replace(process.instance, state=InstanceState.EXITED)
            return
        process.child = adopt(kept["pid"])
        process.child.when_ended(lambda status: self.exit(instance_id, status))
        if _is_stopped(kept["pid"]):
            process.instance = replace(process.instance, state=InstanceState.PAUSED)


def _is_stopped(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return stat.rpartition(")")[2].split()[0] == "T"


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_BYTES))
            return file.read(LOG_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""
