# SPDX-License-Identifier: Apache-2.0
"""What a runtime is: a home for instances. Each docstring is a contract that a suite tests."""

from __future__ import annotations

import abc
import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from opensandbox_server.runtimes.images import Images
from opensandbox_server.runtimes.volumes import Volumes


class RuntimeFault(Exception):
    """A runtime could not do what it was asked. The message says why and what to do next."""


class ImageUnknown(RuntimeFault):
    """The image is not here and cannot be fetched; the message names the command that makes it."""


class StartFailed(RuntimeFault):
    """The instance could not be started; nothing of it is left."""


class UpdateFailed(RuntimeFault):
    """The instance could not be changed; it goes on as it was."""


class InstanceUnknown(RuntimeFault):
    """There is no instance of that id."""


class WrongState(RuntimeFault):
    """The instance is not in a state that allows the call."""


class NotSupported(RuntimeFault):
    """This runtime, or this host, cannot do it; the message names what is missing."""


class RuntimeUnavailable(RuntimeFault):
    """The runtime cannot work here: a program, a privilege or a kernel feature is missing."""


class InstanceState(enum.Enum):
    """What an instance is seen to be."""

    RUNNING = "running"
    PAUSED = "paused"
    EXITED = "exited"


class Feature(enum.Enum):
    """What not every runtime can do. Whoever asks for one that is missing is refused by name."""

    PAUSE = "pause a sandbox"
    UPDATE = "change the limits of a sandbox that runs"
    SNAPSHOT = "keep snapshots of sandboxes"
    VOLUMES = "mount volumes"
    EGRESS = "control where a sandbox connects to"
    DISK = "limit disk space"
    GPU = "give sandboxes a GPU"
    HOSTNAME = "name a sandbox"
    NO_NETWORK = "leave a sandbox without a network"
    READONLY = "make the root of a sandbox read-only"


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of one sandbox; where it has none of its own, None, the runtime may have one."""

    cpus: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None
    disk_bytes: int | None = None
    gpus: str | None = None
    """How many, or `all`."""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What is wanted of one sandbox: made once, by admission, stored, and handed to a runtime."""

    id: str
    image: str
    entrypoint: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values may be somebody's keys: they are in no log, span or inspection."""
    resources: Resources = Resources()
    platform: tuple[str, str] | None = None
    isolation: str | None = None
    """The tier asked for (`extensions["runtime"]`): crun, runc, gvisor, …; None is the default."""
    has_network: bool = True
    is_readonly: bool = False
    hostname: str | None = None
    """What it calls itself; None leaves that to the runtime."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes different of an instance that is there; None leaves a part as it is."""

    resources: Resources | None = None
    """All its limits from now on, as a start would be given them: a None in it lifts a limit."""


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """The files of an instance at one moment, as only the runtime that kept them understands it."""

    id: str
    size_bytes: int
    """What it takes; it counts against its owner's limits."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What one start needs to know and no instance may: nothing of it goes into a sandbox."""

    execd_token: str = field(repr=False)
    """Every request to execd carries it; execd itself is given only its hash. New at each start."""
    registry_auth: tuple[str, str] | None = field(default=None, repr=False)
    """Who pulls the image; used once and kept nowhere."""


@dataclass(frozen=True, slots=True)
class ExecdAddress:
    """Where execd of an instance answers: exactly one of a unix socket and host:port."""

    socket: Path | None = None
    tcp: str | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """What a runtime sees: one sandbox that exists."""

    id: str
    state: InstanceState
    execd: ExecdAddress
    started_at: datetime
    exit_code: int | None = None
    reason: str = ""
    limits: Resources = Resources()
    """What holds for it now, also where it has no limit of its own, as far as that is known."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """One instance with what helps to understand it."""

    instance: Instance
    logs: str
    """The end of the entrypoint's output; all that is kept of it: see Runtime.logs."""
    details: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LogPart:
    """Some of what an entrypoint wrote."""

    position: int
    """Of its first byte: more than the end of the part before where something is kept no longer."""
    data: bytes

    @property
    def end(self) -> int:
        """Where the next part begins, if nothing is missing."""
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """An instance changed without having been told to: it exited, or came back."""

    instance: Instance


@dataclass(frozen=True, slots=True)
class RuntimeHome:
    """What the server gives a runtime when it makes it. Making one opens and connects nothing."""

    data_dir: Path
    run_dir: Path
    """Where sockets live: a directory no sandbox sees, and ingress may enter."""
    execd: Path | None = None
    """The execd program, when one was found."""
    ingress_gid: int | None = None
    """The group ingress runs as; None when it is the same user as the server.

    The next start may have another: what is in run_dir already is to be opened to it then."""
    options: Mapping[str, object] = field(default_factory=dict)
    """The table of the config file named like the runtime, as written there."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing `doctor` looked at."""

    name: str
    is_ok: bool
    message: str
    fix: str = ""
    """The exact command that repairs it, when there is one; on what is ok, what makes it better."""


class Runtime(abc.ABC):
    """A home for instances. Knows no HTTP, no expiry, no tenants and no pools.

    Every verb may be called for different ids at the same time. A server calls for one id one after
    another; where several share a runtime, another may call meanwhile. None blocks the event loop.
    A cancelled call leaves either everything or nothing.
    """

    name: str
    features: frozenset[Feature] = frozenset()
    """What its usual tier can do; found out once, complete when prepare returns."""
    images: Images | None = None
    """Its images; None where they are somebody else's business, as those of a cluster's nodes."""
    volumes: Volumes | None = None
    """Its volumes; None without Feature.VOLUMES."""
    is_authoritative: bool = False
    """True where instances are also made by others, and are wanted because they are there.

    Whoever compares them with a store must then not end what the store does not know.
    """

    def features_of(self, isolation: str | None) -> frozenset[Feature]:  # noqa: ARG002
        """Return what the tier asked for can do; one that is not here is refused by start."""
        return self.features

    def lacks(self, feature: Feature) -> NotSupported:
        """Return what is raised when it is asked for a feature that it has not."""
        return NotSupported(f"the {self.name} runtime cannot {feature.value}")

    async def doctor(self) -> Sequence[Finding]:
        """Look at the host without changing it. Works before prepare and for any user."""
        return ()

    def place(self) -> str:
        """Where instances live when that is not this data directory; empty when it is.

        Servers whose runtimes name the same place share their sandboxes.
        """
        return ""

    @property
    def trouble(self) -> str:
        """Why nothing can be started right now; empty while all is well. Readiness asks for it."""
        return ""

    @abc.abstractmethod
    async def prepare(self) -> None:
        """Make the runtime ready, and ahead what is slow. Raises RuntimeUnavailable."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Release what prepare made. Instances go on running; a later prepare finds them again."""

    @abc.abstractmethod
    async def start(
        self, spec: SandboxSpec, secrets: Secrets, source: SnapshotRef | None = None
    ) -> Instance:
        """Make an instance and return when requests to its execd are answered or queued.

        Its files are those of the image, or of a snapshot of an instance of that image. Raises
        ImageUnknown, StartFailed, NotSupported; then nothing of the instance is left.
        """

    @abc.abstractmethod
    async def stop(self, instance_id: str) -> None:
        """End the instance and everything in it; nothing is left when it returns.

        Repeats safely: an unknown id is no error. Works on paused and exited instances.
        """

    async def pause(self, instance_id: str) -> None:  # noqa: ARG002
        """Freeze every process. Repeats safely. Raises InstanceUnknown; WrongState if it exited."""
        raise self.lacks(Feature.PAUSE)

    async def resume(self, instance_id: str) -> Instance:  # noqa: ARG002
        """Undo pause, and return the instance as it is then: its execd may be elsewhere.

        Repeats safely. Raises InstanceUnknown, WrongState when it exited.
        """
        raise self.lacks(Feature.PAUSE)

    async def update(self, instance_id: str, change: Change) -> Instance:  # noqa: ARG002
        """Change an instance, running or paused; all of it holds when this returns. Repeats safely.

        Nothing in it is ended to get below a limit. Raises UpdateFailed when that cannot be, or for
        another reason, and then everything is as before; InstanceUnknown; WrongState if it exited.
        """
        raise self.lacks(Feature.UPDATE)

    async def snapshot(self, instance_id: str) -> SnapshotRef:  # noqa: ARG002
        """Keep the files of an instance as they are at one moment; it goes on in its state.

        Raises InstanceUnknown. A snapshot is kept until it is forgotten, whatever becomes of the
        instance.
        """
        raise self.lacks(Feature.SNAPSHOT)

    async def forget(self, snapshot: SnapshotRef) -> None:  # noqa: ARG002
        """Remove a snapshot; instances started from it go on. Repeats safely."""
        raise self.lacks(Feature.SNAPSHOT)

    @abc.abstractmethod
    async def instances(self) -> Sequence[Instance]:
        """Every instance there is, also those a former process of this server started."""

    @abc.abstractmethod
    async def inspect(self, instance_id: str) -> Inspection:
        """One instance as it is now, with its logs. Raises InstanceUnknown."""

    @abc.abstractmethod
    def logs(
        self, instance_id: str, since: int = 0, *, follow: bool = False
    ) -> AsyncIterator[LogPart]:
        """Give what the entrypoint wrote, as bytes, from a position on: that of the first is 0.

        What is no longer kept is left out, which the position of the next part shows. Without
        follow it ends with what there is; else with the instance, or when it is closed. Positions
        hold as long as the instance is there, for other processes of this server too. Nothing is
        held for a slow reader. The first step raises InstanceUnknown.
        """

    @abc.abstractmethod
    def watch(self) -> AsyncIterator[RuntimeEvent]:
        """Tell of instances that end by themselves, from the call on, until it is closed.

        Whoever calls this first and instances() then misses nothing; no position is needed.
        """
