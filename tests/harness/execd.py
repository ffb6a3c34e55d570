# SPDX-License-Identifier: Apache-2.0
"""Runs the real execd binary: as root, as an ordinary user, or in a throw-away root file system.

`run_daemon` is for all who need one; `running` and `outcome` start the program with exactly the
given arguments, for tests about starting.

The listening sockets exist before the daemon does and are handed over as descriptors, so the first
request waits in the accept queue and nothing polls for readiness.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx

from tests.harness import throwaway_root
from tests.harness.wait import PATIENCE

Kind = Literal["root", "user", "busybox"]
KINDS: tuple[Kind, ...] = ("root", "user", "busybox")
OWN: Kind = "root" if os.geteuid() == 0 else "user"
"""The kind that runs as whoever runs the tests."""

_BUILT = Path(__file__).resolve().parents[2] / "build" / "execd"
BINARY = Path(os.environ.get("EXECD_BINARY", _BUILT))
ORDINARY_UID = 65534
SANDBOX_ID = "sandbox-under-test"
TOKEN_HEADER = "X-EXECD-ACCESS-TOKEN"  # noqa: S105 - a header's name
STOP_GRACE_SECONDS = 10.0  # bounds an orderly stop; a daemon that needs longer is killed


class DaemonUnavailableError(Exception):
    """This machine or user cannot run that kind of daemon; the message says why."""


@dataclass(frozen=True)
class Daemon:
    """A running daemon and the way to it."""

    kind: Kind
    client: httpx.Client
    """Speaks to the daemon over its unix socket; its base URL is http://execd."""
    socket_path: Path
    """The unix socket. In the busybox kind it is outside of the daemon's root."""
    url: str
    """The same daemon over TCP on loopback."""
    pid: int
    """The daemon's process id as this process sees it."""
    workdir: str
    """A directory the daemon may write to, as the daemon sees it. It is also its HOME."""
    has_bash: bool
    log_path: Path
    """What the daemon wrote to its stdout and stderr."""
    token: str

    @property
    def address(self) -> str:
        """The host and port of its URL."""
        return self.url.removeprefix("http://")

    def outside_path(self, path: str) -> Path:
        """Return where this process finds the daemon's absolute ``path``."""
        if self.kind != "busybox":
            return Path(path)
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")


@dataclass(frozen=True)
class _Home:
    """Where and as whom a daemon runs."""

    kind: Kind
    command: list[str]
    workdir: str
    state: str
    uid: int | None  # None: as whoever runs the tests


@contextmanager
def run_daemon(
    kind: Kind,
    arguments: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    token: str = "",
) -> Iterator[Daemon]:
    """Run one daemon until the block ends, with ``arguments`` added to its command line.

    With a ``token`` the daemon asks for it and ``client`` sends it. Raises DaemonUnavailableError
    when this machine cannot run that kind.
    """
    with ExitStack() as stack:
        outside = Path(tempfile.mkdtemp(prefix="execd-"))
        stack.callback(shutil.rmtree, outside, ignore_errors=True)
        outside.chmod(0o755)
        home = _home(kind, outside)
        socket_path = outside / "execd.sock"
        unix = _listen(socket.AF_UNIX, str(socket_path))
        tcp = _listen(socket.AF_INET, ("127.0.0.1", 0))
        url = f"http://127.0.0.1:{tcp.getsockname()[1]}"
        log_path = outside / "execd.log"
        with unix, tcp:  # closed once handed over: our copies would keep a dead daemon's queue open
            process = _start(home, [unix, tcp], token, arguments, environment or {}, log_path)
        stack.callback(_stop, process, home)
        client = stack.enter_context(client_of(socket_path, token))
        _await_first_answer(client, process, log_path)
        has_bash = kind != "busybox" and shutil.which("bash") is not None
        pid = _daemon_pid(process, home)
        yield Daemon(kind, client, socket_path, url, pid, home.workdir, has_bash, log_path, token)


def _home(kind: Kind, outside: Path) -> _Home:
    if not BINARY.exists():
        raise FileNotFoundError(f"{BINARY} is missing; run: make build")
    if kind == "busybox":
        return _throwaway_home(outside)
    is_root = os.geteuid() == 0
    if kind == "root" and not is_root:
        raise DaemonUnavailableError("the tests do not run as root")
    uid = ORDINARY_UID if kind == "user" and is_root else None
    binary = BINARY
    if uid is not None:  # the repository may be in a directory only root can enter
        binary = outside / "execd"
        shutil.copy(BINARY, binary)
    for name in ("work", "state"):
        (outside / name).mkdir()
        if uid is not None:
            os.chown(outside / name, uid, uid)
    return _Home(kind, [str(binary)], str(outside / "work"), str(outside / "state"), uid)


def _throwaway_home(outside: Path) -> _Home:
    if reason := throwaway_root.missing():
        raise DaemonUnavailableError(reason)
    mount_point = outside / "root"
    mount_point.mkdir()
    command = throwaway_root.command(mount_point, BINARY)
    return _Home("busybox", command, throwaway_root.WORKDIR, throwaway_root.STATE, None)


def _listen(family: int, address: str | tuple[str, int]) -> socket.socket:
    listener = socket.socket(family)
    listener.bind(address)
    if isinstance(address, str):
        Path(address).chmod(0o666)
    listener.listen(1024)
    return listener


def _start(
    home: _Home,
    listeners: Sequence[socket.socket],
    token: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log_path: Path,
) -> subprocess.Popen[bytes]:
    base = {
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": home.workdir,
        "LANG": "C.UTF-8",
        "EXECD_ENVS": f"{home.workdir}/.execd-envs",
        "OPENSANDBOX_ID": SANDBOX_ID,
    }
    passed = [listener.fileno() for listener in listeners]
    flags = [f"--listen=fd://{descriptor}" for descriptor in passed]
    if os.geteuid() != 0:  # tests that count its descriptors could not look into it
        flags.append("--traceable")
    with log_path.open("wb") as log, _readable(token.encode()) as token_descriptor:
        if token:
            passed.append(token_descriptor)
            flags.append(f"--access-token-fd={token_descriptor}")
        return subprocess.Popen(
            [*home.command, *flags, f"--state-dir={home.state}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=passed,
            env={**base, **environment},
            cwd=log_path.parent if home.kind == "busybox" else home.workdir,
            user=home.uid,
            group=home.uid,
            extra_groups=None if home.uid is None else [],
        )


@contextmanager
def _readable(data: bytes) -> Iterator[int]:
    """Give a descriptor that reads as ``data``, which must fit into a pipe."""
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


def client_of(socket_path: Path, token: str = "") -> httpx.Client:
    """Return a client of a daemon's unix socket."""
    return httpx.Client(
        # Without TLS: to read the authorities of this machine takes longer than most tests.
        transport=httpx.HTTPTransport(uds=str(socket_path), verify=False),
        base_url="http://execd",
        headers={TOKEN_HEADER: token} if token else {},
        timeout=30,
        trust_env=False,
    )


def _await_first_answer(
    client: httpx.Client, process: subprocess.Popen[bytes], log_path: Path
) -> None:
    try:
        client.get("/ping").raise_for_status()
    except httpx.HTTPError as error:
        status = process.poll()
        log = log_path.read_text(errors="replace")
        raise RuntimeError(f"execd did not answer (exit status {status}):\n{log}") from error


def _daemon_pid(process: subprocess.Popen[bytes], home: _Home) -> int:
    """Return the daemon's pid; in the throw-away root it is the one child of unshare."""
    if home.kind != "busybox":
        return process.pid
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0]) if children else process.pid


def _stop(process: subprocess.Popen[bytes], home: _Home) -> None:
    if process.poll() is not None:
        return
    daemon = _daemon_pid(process, home)
    os.kill(daemon, signal.SIGTERM)
    try:
        process.wait(STOP_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.kill(daemon, signal.SIGKILL)
        process.wait()
        raise RuntimeError(f"execd did not stop within {STOP_GRACE_SECONDS} s") from None


@contextmanager
def running(
    home: Path, *arguments: str, pass_fds: Sequence[int] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the daemon with its state in home; end it with SIGTERM unless it has ended."""
    with (home / "execd.log").open("wb") as log:
        process = subprocess.Popen(
            [str(BINARY), f"--state-dir={home / 'state'}", *arguments],
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def outcome(
    home: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the daemon to its own end."""
    return subprocess.run(
        [str(BINARY), f"--state-dir={home / 'state'}", *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


def is_listening(path: Path) -> bool:
    """Say whether somebody accepts at a unix socket, whose file is there a little earlier."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
