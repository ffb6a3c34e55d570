# SPDX-License-Identifier: Apache-2.0
"""A runtime for tests: no isolation at all.

With an execd program each instance is a real process in a directory of its own, so commands, files
and ports work, it survives the server, and it can be found again. Without one an instance is only
a record in memory. Images are names, and some of them mean trouble: `unknown…` is not here,
`broken…` does not start.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opensandbox_server.host.spawn import Child, adopt, spawn
from opensandbox_server.runtimes import execd
from opensandbox_server.runtimes.base import (
    Change,
    ExecdAddress,
    Feature,
    Finding,
    ImageUnknown,
    Inspection,
    Instance,
    InstanceState,
    InstanceUnknown,
    LogPart,
    Resources,
    Runtime,
    RuntimeEvent,
    RuntimeHome,
    SandboxSpec,
    Secrets,
    SnapshotRef,
    StartFailed,
    WrongState,
)
from opensandbox_server.runtimes.execd_token import token_flags, token_sha256
from opensandbox_server.runtimes.process_tree import (
    processes_naming,
    processes_with,
    signal_tree,
    start_time,
)
from opensandbox_server.runtimes.watchers import Watchers

LOG_BYTES = 256 * 1024
"""How much of the entrypoint's output is shown."""
LOG_PART_BYTES = 64 * 1024
"""At most so much of it is read at a time."""
LOOK_SECONDS = 0.05
"""Between two looks for more output: processes write into files, and nobody tells of that."""

END_SECONDS = 5.0
"""How long execd that closed its socket may take to end."""
_IN_DIRECTORY = 'cd "$1" && shift && exec "$@"'


@dataclass(slots=True)
class _Process:
    instance: Instance
    image: str
    child: Child | None = None


class FakeRuntime(Runtime):
    """Instances that are processes of the server's own user, or nothing at all."""

    name = "fake"
    features = frozenset({Feature.PAUSE, Feature.UPDATE})

    def __init__(self, home: RuntimeHome) -> None:
        """Take the home; prepare looks into it."""
        if unknown := set(home.options):
            raise ValueError(f"{', '.join(sorted(unknown))}: unknown key; [fake] has none")
        self._home = home
        self._processes: dict[str, _Process] = {}
        self._watchers = Watchers()
        self._sweeps: set[asyncio.Future[None]] = set()

    async def doctor(self) -> Sequence[Finding]:
        """Say whether commands will work."""
        found = self._home.execd
        message = "execd was found" if found else "no execd: sandboxes answer no requests"
        return [Finding("execd", found is not None, message, "" if found else "make build")]

    async def prepare(self) -> None:
        """Find the instances a former process started."""
        self._sockets.mkdir(mode=0o750, exist_ok=True)
        execd.let_in(self._home.ingress_gid, self._sockets)
        self._files.mkdir(mode=0o700, exist_ok=True)
        await asyncio.to_thread(self._remove_half_made)
        for instance_id, kept in await asyncio.to_thread(self._records):
            await self._find_again(instance_id, kept)

    async def close(self) -> None:
        """Leave the instances running."""
        await asyncio.gather(*self._sweeps, return_exceptions=True)
        for process in self._processes.values():
            if process.child:
                process.child.forget()

    async def start(
        self, spec: SandboxSpec, secrets: Secrets, source: SnapshotRef | None = None
    ) -> Instance:
        """Make an instance. Its limits are only kept: nothing here is kept from anything else."""
        if source is not None:
            raise self.lacks(Feature.SNAPSHOT)
        if spec.image.startswith("unknown"):
            raise ImageUnknown(f"image {spec.image} is not here; try any other name")
        if spec.image.startswith("broken"):
            raise StartFailed(f"image {spec.image} never starts")
        address = ExecdAddress(socket=self._sockets / spec.id / "execd.sock")
        instance = Instance(
            spec.id, InstanceState.RUNNING, address, datetime.now(UTC), limits=spec.resources
        )
        process = _Process(instance, spec.image)
        self._processes[spec.id] = process
        if self._home.execd:
            try:
                await self._begin(spec, secrets, self._home.execd, process)
            except BaseException:
                await asyncio.shield(self.stop(spec.id))
                raise
            self._watch(process)
        return instance

    async def stop(self, instance_id: str) -> None:
        """End the process tree and remove its directories."""
        process = self._processes.pop(instance_id, None)
        if process and process.child and not process.child.has_ended:
            await asyncio.to_thread(signal_tree, process.child.pid, signal.SIGKILL)
            await process.child.wait()
        await asyncio.to_thread(self._remove, instance_id)

    async def pause(self, instance_id: str) -> None:
        """Stop every process of the tree."""
        await self._change(instance_id, InstanceState.PAUSED, signal.SIGSTOP)

    async def resume(self, instance_id: str) -> Instance:
        """Let every process of the tree go on."""
        await self._change(instance_id, InstanceState.RUNNING, signal.SIGCONT)
        return self._get(instance_id).instance

    async def update(self, instance_id: str, change: Change) -> Instance:
        """Keep other limits, which hold nothing back."""
        process = self._get_alive(instance_id)
        if change.resources is not None:
            process.instance = replace(process.instance, limits=change.resources)
            if process.child:
                await _whole(_write_record, self._files / instance_id, process)
        return process.instance

    async def instances(self) -> Sequence[Instance]:
        """Return all of them."""
        return [process.instance for process in self._processes.values()]

    async def inspect(self, instance_id: str) -> Inspection:
        """Return one with what its entrypoint wrote."""
        process = self._get(instance_id)
        logs = await asyncio.to_thread(_tail, self._files / instance_id / "log")
        return Inspection(process.instance, logs, {"runtime": self.name, "image": process.image})

    async def logs(
        self, instance_id: str, since: int = 0, *, follow: bool = False
    ) -> AsyncIterator[LogPart]:
        """Read the file that its processes write into; nothing of it is ever dropped."""
        process, position = self._get(instance_id), since
        while True:
            is_over = process.instance.state == InstanceState.EXITED or not follow
            part = await asyncio.to_thread(_read, self._files / instance_id / "log", position)
            if part.data:
                yield part
                position = part.end
            elif is_over or self._processes.get(instance_id) is not process:
                return
            else:
                await asyncio.sleep(LOOK_SECONDS)

    def watch(self) -> AsyncIterator[RuntimeEvent]:
        """Tell of instances that end by themselves."""
        return self._watchers.add()

    def exit(self, instance_id: str, status: int | None) -> None:
        """Let an instance end by itself, as when its entrypoint returns."""
        process = self._processes.get(instance_id)
        if process is None:
            return  # it was stopped, which is no news
        process.instance = replace(
            process.instance, state=InstanceState.EXITED, exit_code=_exit_code(status)
        )
        self._watchers.tell(process.instance)

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

    def _get_alive(self, instance_id: str) -> _Process:
        process = self._get(instance_id)
        if process.instance.state == InstanceState.EXITED:
            raise WrongState(f"instance {instance_id} has exited")
        return process

    async def _change(self, instance_id: str, state: InstanceState, number: signal.Signals) -> None:
        process = self._get_alive(instance_id)
        if process.child:
            await asyncio.to_thread(signal_tree, process.child.pid, number)
        if not (process.child and process.child.has_ended):
            process.instance = replace(process.instance, state=state)

    async def _begin(
        self, spec: SandboxSpec, secrets: Secrets, program: Path, process: _Process
    ) -> None:
        """Start execd and wait for its answer; files are made on a thread."""
        files, instance = self._files / spec.id, process.instance
        assert instance.execd.socket is not None
        await _whole(self._make_directories, files, instance.execd.socket.parent)
        with contextlib.ExitStack() as ours:
            gid = self._home.ingress_gid
            listener = ours.enter_context(execd.listening(instance.execd.socket, gid))
            token = token_sha256(secrets.execd_token)
            with execd.asked(instance.execd.socket, secrets.execd_token) as question:
                try:
                    process.child = self._run(spec, program, files, listener, token)
                except OSError as fault:
                    raise StartFailed(f"execd cannot be started: {fault.strerror}") from fault
                ours.close()  # now only execd has the socket, which ends with it
                await _whole(_write_record, files, process)
                await self._answered(question, spec.id, process.child)

    async def _answered(self, question: socket.socket, instance_id: str, child: Child) -> None:
        try:
            await execd.first_answer(question)
        except execd.NoAnswer as fault:
            status = _exit_code(await child.end(END_SECONDS))
            logs = await asyncio.to_thread(_tail, self._files / instance_id / "log")
            raise StartFailed(execd.why_it_ended(status, logs)) from fault

    def _watch(self, process: _Process) -> None:
        """Tell when it ends. execd that was killed leaves what it started: that is ended first."""
        assert process.child is not None
        instance_id = process.instance.id

        async def sweep(status: int | None) -> None:
            try:
                await asyncio.to_thread(self._end_leftovers, instance_id)
            finally:  # its end is news, whatever is left of it
                if self._processes.get(instance_id) is process:
                    self.exit(instance_id, status)

        def ended(status: int | None) -> None:
            if self._processes.get(instance_id) is not process:
                return  # it was stopped, and another may have its name already
            sweeping = asyncio.ensure_future(sweep(status))
            self._sweeps.add(sweeping)
            sweeping.add_done_callback(self._sweeps.discard)

        process.child.when_ended(ended)

    def _make_directories(self, files: Path, sockets: Path) -> None:
        for directory in (files, files / "work", files / "state", sockets):
            directory.mkdir(mode=0o750)
        execd.let_in(self._home.ingress_gid, sockets)

    def _end_leftovers(self, instance_id: str) -> None:
        """End what execd of an instance started and can no longer end itself."""
        for pid in processes_with(f"EXECD_ENVS={self._files / instance_id / 'env'}"):
            signal_tree(pid, signal.SIGKILL)

    def _remove(self, instance_id: str) -> None:
        self._end_leftovers(instance_id)
        for directory in (self._sockets / instance_id, self._files / instance_id):
            shutil.rmtree(directory, ignore_errors=True)

    def _run(
        self, spec: SandboxSpec, program: Path, files: Path, listener: int, token: str
    ) -> Child:
        work = files / "work"
        argv: list[str | Path] = ["/bin/sh", "-c", _IN_DIRECTORY, "sh", work, program]
        argv += ["--listen", "fd://3", *token_flags(token)]
        argv += ["--state-dir", files / "state", "--log-level", "4", "--", *spec.entrypoint]
        env = {
            "PATH": f"/usr/local/bin:{os.defpath}",
            "HOME": str(work),
            **spec.env,
            "OPENSANDBOX_ID": spec.id,
            "EXECD_ENVS": str(files / "env"),
        }
        log = os.open(files / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fds = {0: nothing, 1: log, 2: log, 3: listener}
            return spawn(argv, env, fds=fds, has_own_session=True)
        finally:
            os.close(log)
            os.close(nothing)

    def _remove_half_made(self) -> None:
        """Remove what a process that was killed in the middle of a start left."""
        for directory in self._files.iterdir():
            if (directory / "instance.json").exists():
                continue
            for pid in processes_naming(str(directory)):
                signal_tree(pid, signal.SIGKILL)
            self._remove(directory.name)

    def _records(self) -> list[tuple[str, dict[str, Any]]]:
        """Read what is known of the instances a former process started."""
        records = sorted(self._files.glob("*/instance.json"))
        return [(record.parent.name, json.loads(record.read_text())) for record in records]

    async def _find_again(self, instance_id: str, kept: dict[str, Any]) -> None:
        address = ExecdAddress(socket=self._sockets / instance_id / "execd.sock")
        began = datetime.fromisoformat(kept["started_at"])
        limits = Resources(**kept.get("limits", {}))
        instance = Instance(instance_id, InstanceState.RUNNING, address, began, limits=limits)
        process = _Process(instance, kept["image"])
        self._processes[instance_id] = process
        if start_time(kept["pid"]) != kept["start"]:
            await asyncio.to_thread(self._end_leftovers, instance_id)
            process.instance = replace(process.instance, state=InstanceState.EXITED)
            return
        process.child = adopt(kept["pid"])
        self._watch(process)
        if _is_stopped(kept["pid"]):
            process.instance = replace(process.instance, state=InstanceState.PAUSED)


async def _whole(work: Callable[..., None], *arguments: object) -> None:
    """Do work on a thread; a cancelled caller waits for its end, so that nothing comes after."""
    doing = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        raise


def _write_record(files: Path, process: _Process) -> None:
    """Write it whole or not at all."""
    assert process.child is not None
    pid, instance = process.child.pid, process.instance
    record = {
        "pid": pid,
        "start": start_time(pid),
        "image": process.image,
        "started_at": instance.started_at.isoformat(),
        "limits": asdict(instance.limits),
    }
    written = files / "instance.json.new"
    written.write_text(json.dumps(record))
    written.rename(files / "instance.json")


def _exit_code(status: int | None) -> int | None:
    """Count as shells do: 128 + signal."""
    return status if status is None or status >= 0 else 128 - status


def _is_stopped(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return stat.rpartition(")")[2].split()[0] == "T"


def _read(path: Path, position: int) -> LogPart:
    try:
        with path.open("rb") as file:
            begin = min(position, os.fstat(file.fileno()).st_size)
            file.seek(begin)
            return LogPart(begin, file.read(LOG_PART_BYTES))
    except FileNotFoundError:
        return LogPart(position, b"")


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_BYTES))
            return file.read(LOG_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""
