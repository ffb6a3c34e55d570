# SPDX-License-Identifier: Apache-2.0
"""OCIRuntime: the verbs of a runtime, asked from the launcher."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import platform
import re
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opensandbox_server.host.supervision import growing_pauses
from opensandbox_server.runtimes import execd
from opensandbox_server.runtimes.base import (
    Change,
    ExecdAddress,
    Feature,
    Finding,
    Inspection,
    Instance,
    InstanceState,
    InstanceUnknown,
    LogPart,
    NotSupported,
    Resources,
    Runtime,
    RuntimeEvent,
    RuntimeFault,
    RuntimeHome,
    RuntimeUnavailable,
    SandboxSpec,
    Secrets,
    SnapshotRef,
    StartFailed,
    UpdateFailed,
)
from opensandbox_server.runtimes.execd_token import token_sha256
from opensandbox_server.runtimes.oci.bounds import Limits, Machine
from opensandbox_server.runtimes.oci.client import (
    LAUNCHER,
    LauncherClient,
    LauncherGone,
    LauncherRefused,
)
from opensandbox_server.runtimes.oci.doctor import examine
from opensandbox_server.runtimes.oci.image import Image
from opensandbox_server.runtimes.oci.images import HOST_IMAGE, ImageStore
from opensandbox_server.runtimes.oci.images.archive import docker_architecture
from opensandbox_server.runtimes.oci.images.workdir import BadWorkingDirectory, working_directory
from opensandbox_server.runtimes.oci.launcher.program import find_oci_program
from opensandbox_server.runtimes.oci.log_news import LogNews
from opensandbox_server.runtimes.oci.options import OCIOptions, read_options
from opensandbox_server.runtimes.oci.protocol import (
    Description,
    Inspect,
    ListAll,
    ListNotUnderstood,
    Pause,
    ReadLog,
    Result,
    Resume,
    Setup,
    Start,
    Stop,
    Update,
    Verb,
)
from opensandbox_server.runtimes.watchers import Watchers

log = logging.getLogger(__name__)

END_SECONDS = 5.0
"""How long the news that a sandbox has ended may take, once its socket is closed."""
LOG_BYTES = 256 * 1024
"""How much of the entrypoint's output inspect shows."""
LOG_PART_BYTES = 64 * 1024
"""At most so much of it is held for one who reads all."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
REPLACED_SECONDS = 30.0
"""How long a request waits for the launcher that replaces one that ended."""


class OCIRuntime(Runtime):
    """Sandboxes made of namespaces, by crun or runc, with no daemon."""

    name = "oci"
    features = frozenset(
        {
            Feature.PAUSE,
            Feature.UPDATE,
            Feature.HOSTNAME,
            Feature.NO_NETWORK,
            Feature.READONLY,
        }
    )
    launcher = LAUNCHER

    def __init__(self, home: RuntimeHome) -> None:
        """Read the options; nothing is opened yet. Raises ValueError for a bad option."""
        self._home = home
        self._options: OCIOptions = read_options(home.options)
        self.images: ImageStore = ImageStore(home.data_dir, Path(self._options.cache_dir))
        self._sockets = home.run_dir / "oci"
        self._turns = asyncio.Semaphore(2 * self._options.concurrent_starts)
        self._client: LauncherClient | None = None
        self._watchers = Watchers()
        self._log_news = LogNews()
        self._ends: dict[str, asyncio.Future[Description]] = {}
        self._told: set[str] = set()  # whose end is no longer news
        self._restarting: asyncio.Task[None] | None = None
        self._undoing: set[asyncio.Task[None]] = set()

    async def doctor(self) -> Sequence[Finding]:
        """Look at the host."""
        return await asyncio.to_thread(examine, self._home.execd, self._options)

    async def prepare(self) -> None:
        """Start the launcher, which finds running sandboxes and makes slots ahead.

        The host image is made meanwhile: it is hundreds of files, too many for a create to wait.
        """
        if self._home.execd is None:
            raise RuntimeUnavailable("the execd program was not found; make build")
        if os.geteuid() != 0:
            raise RuntimeUnavailable(
                "the embedded runtime needs root; run: sudo opensandbox-server, or see: "
                "opensandbox-server doctor"
            )
        self._make_directories()
        making = asyncio.create_task(self._make_host_image(), name="make the host image")
        try:
            try:
                await self._open_client()
            finally:
                await making
            await asyncio.to_thread(self.images.sweep)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the launcher; sandboxes go on."""
        if self._restarting:
            self._restarting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._restarting
        await asyncio.gather(*self._undoing, return_exceptions=True)
        client, self._client = self._client, None  # from here on nobody asks it
        if client:
            await client.close()
        self._log_news.tell_all()

    async def start(
        self, spec: SandboxSpec, secrets: Secrets, source: SnapshotRef | None = None
    ) -> Instance:
        """Make a sandbox and return when its execd has answered."""
        if source is not None:
            raise self.lacks(Feature.SNAPSHOT)
        self._refuse_unsupported(spec)
        image = await self.images.resolve(spec.image)
        _check_working_directory(image)
        start = Start(
            spec,
            image,
            self._limits(spec.resources),
            socket=str(self._sockets / f"{spec.id}.sock"),
            token_sha256=token_sha256(secrets.execd_token),
        )
        async with self._turns:  # a burst must not make all its sockets in one go
            try:
                return await self._start(start, secrets.execd_token)
            except LauncherGone:  # the next one has removed what was made
                return await self._start(start, secrets.execd_token)

    async def _start(self, start: Start, token: str) -> Instance:
        path, sandbox_id = Path(start.socket), start.spec.id
        with contextlib.ExitStack() as ours:
            listener = ours.enter_context(execd.listening(path, self._home.ingress_gid))
            with execd.asked(path, token) as question:
                ended = self._ends[sandbox_id] = asyncio.get_running_loop().create_future()
                started = asyncio.create_task(self._ask(start, (listener,)))
                try:
                    described = await self._started(started)
                    ours.close()  # now only the sandbox has the socket, which ends with it
                    await self._answered(question, ended)
                except BaseException:
                    await self._undo(started, sandbox_id, path)
                    raise
                finally:
                    del self._ends[sandbox_id]
        if ended.done():  # after its first answer, so it is news
            self._tell(ended.result())
        return to_instance(described)

    async def stop(self, instance_id: str) -> None:
        """End a sandbox and remove everything of it."""
        await self._ask(Stop(instance_id))
        self._told.discard(instance_id)
        (self._sockets / f"{instance_id}.sock").unlink(missing_ok=True)

    async def pause(self, instance_id: str) -> None:
        """Freeze every process."""
        await self._ask(Pause(instance_id))

    async def resume(self, instance_id: str) -> Instance:
        """Thaw every process."""
        return to_instance(await self._ask(Resume(instance_id)))

    async def update(self, instance_id: str, change: Change) -> Instance:
        """Give its cgroups other limits; the sizes of its file systems in memory stay."""
        limits = None if change.resources is None else self._limits(change.resources)
        try:
            return to_instance(await self._ask_until_answered(Update(instance_id, limits)))
        except LauncherRefused as fault:
            raise UpdateFailed(f"instance {instance_id} cannot be changed: {fault}") from fault

    async def instances(self) -> Sequence[Instance]:
        """List every sandbox."""
        return [to_instance(described) for described in await self._ask(ListAll())]

    async def inspect(self, instance_id: str) -> Inspection:
        """Look at one sandbox."""
        found = await self._ask(Inspect(instance_id, LOG_BYTES))
        return Inspection(to_instance(found.description), found.logs, found.details)

    async def logs(
        self, instance_id: str, since: int = 0, *, follow: bool = False
    ) -> AsyncIterator[LogPart]:
        """Read what the launcher keeps; nobody polls, for it tells when there is more."""
        position, read = since, None
        with self._log_news.awaited(instance_id) as news:
            while True:
                news.clear()
                verb = ReadLog(instance_id, position, LOG_PART_BYTES, follow)
                try:
                    read = await self._ask_until_answered(verb)
                except InstanceUnknown:
                    if read is None:
                        raise
                    return  # it was stopped meanwhile
                if read.data:
                    yield LogPart(read.position, read.data)
                    position = read.position + len(read.data)
                elif read.is_over or not follow:
                    return
                else:
                    await news.wait()

    def watch(self) -> AsyncIterator[RuntimeEvent]:
        """Tell of sandboxes that end by themselves."""
        return self._watchers.add()

    @property
    def trouble(self) -> str:
        """Say so while no launcher is there to be asked."""
        return "" if self._client else "the launcher is being restarted"

    def _make_directories(self) -> None:
        self._sockets.mkdir(mode=0o750, parents=True, exist_ok=True)
        execd.let_in(self._home.ingress_gid, self._sockets)
        sandboxes = self._home.data_dir / "sandboxes"
        sandboxes.mkdir(mode=0o700, parents=True, exist_ok=True)
        sandboxes.chmod(0o700)  # former versions let everybody in
        self.images.close_to_others()

    async def _make_host_image(self) -> None:
        try:
            await self.images.resolve(HOST_IMAGE)
        except (
            RuntimeFault,
            OSError,
        ) as fault:  # only a create from this image fails, and says why
            log.warning("the image %s cannot be made: %s", HOST_IMAGE, fault)

    async def _open_client(self) -> None:
        client = LauncherClient(self._tell, self._log_news.tell, self._restart, self.launcher)
        await client.open(self._setup())
        for each in await client.ask(ListNotUnderstood()):
            log.warning(
                "%s among the sandboxes is left as it is: %s; see: opensandbox-server leftovers",
                each.name,
                each.why,
            )
        self._client = client

    def _setup(self) -> Setup:
        data_dir, options = self._home.data_dir.resolve(), self._options
        together = options.bounds(Machine.ours())
        return Setup(
            data_dir=str(data_dir),
            execd=str(self._home.execd),
            cgroup=cgroup_parent(data_dir),
            program=options.program,
            slots_ahead=options.slots_ahead,
            concurrent_starts=options.concurrent_starts,
            subnet=options.subnet,
            network=asdict(options.network),
            memory_bytes=together.memory_bytes or 0,
            pids=together.pids or 0,
        )

    def _limits(self, asked: Resources) -> Limits:
        return effective_limits(asked, self._options.defaults(Machine.ours()))

    def _refuse_unsupported(self, spec: SandboxSpec) -> None:
        if not _ID.fullmatch(spec.id):  # it names files, a cgroup and a container
            raise StartFailed(f"{spec.id!r} cannot be the id of a sandbox")
        if spec.isolation:
            program = find_oci_program(self._options.program, Path()).name
            if spec.isolation != program:
                raise NotSupported(
                    f"this server starts sandboxes with {program}, not {spec.isolation}; "
                    "an operator chooses with oci.program"
                )
        wanted, here = spec.platform, ("linux", docker_architecture(platform.machine()))
        if wanted is not None and wanted != here:
            raise NotSupported(f"this host runs {'/'.join(here)}, not {'/'.join(wanted)}")

    async def _started(self, started: asyncio.Task[Description]) -> Description:
        try:
            return await asyncio.shield(started)
        except (StartFailed, LauncherGone):
            raise
        except RuntimeFault as fault:
            raise StartFailed(str(fault)) from fault

    async def _answered(self, question: socket.socket, ended: asyncio.Future[Description]) -> None:
        """Wait for execd. One that ended without an answer could not start its entrypoint."""
        try:
            await execd.first_answer(question)
        except execd.NoAnswer as fault:
            await asyncio.wait({ended}, timeout=END_SECONDS)
            if not ended.done():
                raise StartFailed(str(fault)) from fault
            instance = to_instance(ended.result())
            found = await self._ask(Inspect(instance.id, LOG_BYTES))
            raise StartFailed(execd.why_it_ended(instance.exit_code, found.logs)) from fault

    async def _undo(self, started: asyncio.Task[Any], instance_id: str, path: Path) -> None:
        """Remove what a start made, after it ended, and also when this is cancelled again."""

        async def remove() -> None:
            await asyncio.gather(started, return_exceptions=True)
            with contextlib.suppress(RuntimeFault):
                await self._ask(Stop(instance_id))
            path.unlink(missing_ok=True)

        removing = asyncio.create_task(remove(), name=f"undo start of {instance_id}")
        self._undoing.add(removing)
        removing.add_done_callback(self._undoing.discard)
        await asyncio.shield(removing)

    async def _ask(self, verb: Verb[Result], fds: Sequence[int] = ()) -> Result:
        if self._client is None and self._restarting:
            await asyncio.wait({self._restarting}, timeout=REPLACED_SECONDS)
        if self._client is None:
            raise RuntimeUnavailable("the launcher of the embedded runtime is being restarted")
        return await self._client.ask(verb, fds)

    async def _ask_until_answered(self, verb: Verb[Result]) -> Result:
        """Ask for what repeats safely, of the next launcher where one ended in the middle."""
        while True:
            with contextlib.suppress(LauncherGone):
                return await self._ask(verb)
            await asyncio.sleep(0)  # what makes the next one begins in this moment

    def _tell(self, described: Description) -> None:
        starting = self._ends.get(described.id)
        if starting is not None:
            if not starting.done():
                starting.set_result(described)
            return  # nobody knows it yet
        if described.id in self._told:
            return
        self._told.add(described.id)
        self._watchers.tell(to_instance(described))

    def _restart(self) -> None:
        former, self._client = self._client, None
        self._log_news.tell_all()
        restarting = self._open_again(former)
        self._restarting = asyncio.create_task(restarting, name="oci launcher restart")

    async def _open_again(self, former: LauncherClient | None) -> None:
        if former:
            await former.close()
        pauses = growing_pauses()
        while not await self._is_open_again():
            await asyncio.sleep(next(pauses))

    async def _is_open_again(self) -> bool:
        """Try to open a launcher, and tell of what ended while there was none."""
        try:
            await self._open_client()
            ended = [each for each in await self._ask(ListAll()) if each.state == "exited"]
        except LauncherGone:
            return True  # it has ended already, and its end began another restart
        except Exception as fault:  # said here, and tried again
            trace = None if isinstance(fault, RuntimeFault) else fault
            log.error("the launcher cannot be restarted yet: %s", fault, exc_info=trace)
            return False
        for described in ended:
            self._tell(described)
        return True


def cgroup_parent(data_dir: Path) -> str:
    """Name the cgroup all sandboxes of a data directory are in."""
    return f"osb-{hashlib.sha256(str(data_dir).encode()).hexdigest()[:8]}"


def effective_limits(asked: Resources, defaults: Limits) -> Limits:
    """Return what holds: what was asked for, else what holds for everybody."""
    memory, pids = asked.memory_bytes, asked.pids
    return Limits(
        cpus=asked.cpus,
        memory_bytes=memory if memory is not None else defaults.memory_bytes,
        pids=pids if pids is not None else defaults.pids,
    )


def to_instance(described: Description) -> Instance:
    """Translate what the launcher says."""
    return Instance(
        id=described.id,
        state=InstanceState(described.state),
        execd=ExecdAddress(socket=Path(described.socket)),
        started_at=datetime.fromtimestamp(described.created, UTC),
        exit_code=described.exit_code,
        reason=described.reason,
        limits=Resources(**asdict(described.limits)),
    )


def _check_working_directory(image: Image) -> None:
    """Look once more: an older version may have taken the image. Raises StartFailed."""
    try:
        working_directory(image.rootfs, image.cwd)
    except BadWorkingDirectory as fault:
        raise StartFailed(str(fault)) from fault
