# SPDX-License-Identifier: Apache-2.0
"""What server and launcher say to each other: verbs, what they answer, and how that is sent.

A message is its length and JSON; descriptors go beside it. Both ends are of one version, unless the
package was replaced below a running server: what cannot be read is then answered with a fault.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from opensandbox_server.runtimes.base import Resources, SandboxSpec
from opensandbox_server.runtimes.oci.bounds import Limits
from opensandbox_server.runtimes.oci.image import Image
from opensandbox_server.runtimes.oci.launcher.passed import receive_descriptors
from opensandbox_server.runtimes.oci.launcher.program import FIRST_FREE_FD

LENGTH = struct.Struct(">I")
LARGEST = 16 * 1024 * 1024
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Setup:
    """What the server says first."""

    data_dir: str
    execd: str
    cgroup: str
    program: str
    slots_ahead: int
    concurrent_starts: int
    subnet: str
    network: Mapping[str, Any]
    """Of rules.NetworkOptions."""
    memory_bytes: int
    """What all sandboxes together may use."""
    pids: int


@dataclass(frozen=True, slots=True)
class Description:
    """What the launcher sees of one sandbox."""

    id: str
    state: str
    """The value of an InstanceState."""
    socket: str
    created: float
    exit_code: int | None = None
    reason: str = ""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class LogRead:
    """Some of what an entrypoint wrote."""

    position: int
    data: bytes
    is_over: bool
    """Nothing more will come."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """One sandbox with what helps to understand it."""

    description: Description
    logs: str
    details: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NotUnderstoodEntry:
    """Something among the sandboxes that is left as it is."""

    name: str
    why: str


class Verb(Generic[Result]):
    """One thing the launcher can be asked for, and how its answer is read."""

    @staticmethod
    def read(answer: Any) -> Result:
        """Make the result of what came back."""
        raise NotImplementedError


class _Described(Verb[Description]):
    """A verb that answers what the sandbox is then."""

    @staticmethod
    def read(answer: Any) -> Description:
        """Return it."""
        return read_description(answer)


class _Done(Verb[None]):
    """A verb that answers only that it is done."""

    @staticmethod
    def read(answer: Any) -> None:
        """Nothing comes back."""


@dataclass(frozen=True, slots=True)
class Start(_Described):
    """Start a sandbox; the listening socket of its execd goes beside it."""

    spec: SandboxSpec
    image: Image
    """What the spec names, as it is here."""
    limits: Limits
    """What the spec asks for, and what holds where it asks for nothing."""
    socket: str = ""
    """Where that socket is."""
    token_sha256: str = ""
    """All that execd is told of its token."""


@dataclass(frozen=True, slots=True)
class Stop(_Done):
    """End a sandbox and all that there is of it."""

    id: str


@dataclass(frozen=True, slots=True)
class Pause(_Done):
    """Freeze a sandbox."""

    id: str


@dataclass(frozen=True, slots=True)
class Resume(_Described):
    """Thaw a sandbox."""

    id: str


@dataclass(frozen=True, slots=True)
class Update(_Described):
    """Give a sandbox other limits."""

    id: str
    limits: Limits | None
    """None leaves those it has."""


@dataclass(frozen=True, slots=True)
class ReadLog(Verb[LogRead]):
    """Read some of what an entrypoint wrote, from a position on."""

    id: str
    since: int
    most: int
    is_followed: bool
    """When there is nothing, tell once that there is more, or that it has ended."""

    @staticmethod
    def read(answer: Any) -> LogRead:
        """Return it as bytes."""
        return LogRead(answer["position"], base64.b64decode(answer["data"]), answer["is_over"])


@dataclass(frozen=True, slots=True)
class Inspect(Verb[Inspected]):
    """Look at one sandbox."""

    id: str
    log_bytes: int

    @staticmethod
    def read(answer: Any) -> Inspected:
        """Return it with the end of its log."""
        described = read_description(answer["description"])
        return Inspected(described, answer["logs"], answer["details"])


@dataclass(frozen=True, slots=True)
class ListAll(Verb[Sequence[Description]]):
    """List every sandbox."""

    @staticmethod
    def read(answer: Any) -> Sequence[Description]:
        """Return them all."""
        return [read_description(each) for each in answer]


@dataclass(frozen=True, slots=True)
class ListNotUnderstood(Verb[Sequence[NotUnderstoodEntry]]):
    """List what was found among the sandboxes and is left as it is."""

    @staticmethod
    def read(answer: Any) -> Sequence[NotUnderstoodEntry]:
        """Return them all."""
        return [NotUnderstoodEntry(**each) for each in answer]


_VERBS: dict[str, type[Verb[Any]]] = {
    verb.__name__: verb
    for verb in (
        *(Start, Stop, Pause, Resume, Update, ReadLog, Inspect, ListAll, ListNotUnderstood),
    )
}


def read_description(plain: Mapping[str, Any]) -> Description:
    """Read what the launcher says of a sandbox."""
    return Description(**{**plain, "limits": Limits(**plain["limits"])})


def to_plain(value: Any) -> Any:
    """Turn what a verb answers into what JSON has."""
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    if isinstance(value, LogRead):
        return {**asdict(value), "data": base64.b64encode(value.data).decode()}
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def verb_to_plain(verb: Verb[Any]) -> dict[str, Any]:
    """Turn a verb into what is sent."""
    return {"verb": type(verb).__name__, "arguments": to_plain(verb)}


def is_a(verb: type[Verb[Any]], message: Mapping[str, Any]) -> bool:
    """Say whether a message is such a verb, without reading the rest of it."""
    return message.get("verb") == verb.__name__


def verb_of(message: Mapping[str, Any]) -> Verb[Any]:
    """Read a verb. Raises KeyError or TypeError for one that this version does not have."""
    kind, arguments = _VERBS[message["verb"]], message["arguments"]
    if kind is Start:
        return _read_start(arguments)
    if kind is Update and arguments["limits"] is not None:
        return Update(arguments["id"], Limits(**arguments["limits"]))
    return kind(**arguments)


def _read_start(arguments: Mapping[str, Any]) -> Start:
    spec, image = arguments["spec"], arguments["image"]
    lists = {"entrypoint": tuple(spec["entrypoint"])}
    if spec["platform"]:
        lists["platform"] = tuple(spec["platform"])
    wanted = SandboxSpec(**{**spec, **lists, "resources": Resources(**spec["resources"])})
    root = Image(**{**image, "rootfs": Path(image["rootfs"])})
    limits = Limits(**arguments["limits"])
    return Start(wanted, root, limits, arguments["socket"], arguments["token_sha256"])


def encode(message: Mapping[str, Any]) -> bytes:
    """Return what is sent; descriptors go with its first bytes."""
    body = json.dumps(message, default=str).encode()
    if len(body) > LARGEST:
        raise ValueError("the request is too large")
    return LENGTH.pack(len(body)) + body


def send(channel: socket.socket, message: Mapping[str, Any]) -> None:
    """Send a message; blocks."""
    channel.sendall(encode(message))


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive a message and its descriptors; blocks. Raises EOFError at the end."""
    head, passed = receive_descriptors(channel, LENGTH.size, 1)
    descriptors = [_raised(descriptor) for descriptor in passed]
    head += _exactly(channel, LENGTH.size - len(head)) if head else b""
    if not head:
        raise EOFError("the other end is closed")
    (size,) = LENGTH.unpack(head)
    message: dict[str, Any] = json.loads(_exactly(channel, size))
    return message, descriptors


def _exactly(channel: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = channel.recv(size)
        if not part:
            raise EOFError("the other end closed in the middle of a message")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _raised(descriptor: int) -> int:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE_FD)
    finally:
        os.close(descriptor)
