# SPDX-License-Identifier: Apache-2.0
"""Runs the real server, with the real ingress and execd, on a free port of loopback.

`serving` runs one for a block; sandboxes outlive it. `start_server` runs one below a keeper, which
knows every process that comes of it: for tests of what is left, and `run_server` and
`shared_server` for tests that leave nothing.
"""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

import httpx
import pytest

from opensandbox.config import ConnectionConfig, ConnectionConfigSync
from tests.harness.wait import PATIENCE, eventually

RuntimeName = Literal["fake", "oci"]
RUNTIMES: tuple[RuntimeName, ...] = ("fake", "oci")
API_KEY = "key of the tests"

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("OPENSANDBOX_BIN_DIR") or ROOT / "build")
_KEEPER = Path(__file__).with_name("keeper.py")
STOP_SECONDS = 30.0  # bounds an orderly stop, and how long the last process may take to be gone


def obstacle(runtime: RuntimeName) -> str:
    """Say what keeps a runtime from working here; empty when nothing does."""
    if runtime == "oci" and os.geteuid() != 0:
        return "the oci runtime needs root"
    if runtime == "oci" and not (shutil.which("crun") or shutil.which("runc")):
        return "the oci runtime needs crun; apt-get install crun"
    return ""


@dataclass
class Server:
    """One start of the server."""

    runtime: RuntimeName
    home: Path
    """The parent of the data directory; TMPDIR of the server is in it too."""
    port: int
    pid: int
    keeper: subprocess.Popen[str]
    _log: "_Log" = field(repr=False)

    @property
    def data_dir(self) -> Path:
        """Where the server keeps everything."""
        return self.home / "data"

    @property
    def domain(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self.port}"

    @property
    def config(self) -> ConnectionConfig:
        """What the asynchronous client needs."""
        return ConnectionConfig(domain=self.domain, api_key=API_KEY)

    @property
    def sync_config(self) -> ConnectionConfigSync:
        """What the synchronous client needs."""
        return ConnectionConfigSync(domain=self.domain, api_key=API_KEY)

    @property
    def log(self) -> str:
        """What the server and its helpers have written so far."""
        return "".join(self._log.lines)

    def descendants(self) -> list[int]:
        """Every process of this start that lives: the server's, and those that lost their parent.

        Zombies do not live: somebody is about to reap them.
        """
        return list(_below(self.keeper.pid))

    def terminate(self) -> None:
        """Stop the server in an orderly way and wait until it is gone; sandboxes go on."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server without a chance to do anything, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def wait_until_nothing_is_left(self) -> int:
        """Wait for the last process of this start; returns the server's exit status."""
        try:
            status = self.keeper.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            told = "\n".join(_describe(pid) for pid in self.descendants())
            raise AssertionError(f"processes are left:\n{told}\nlog:\n{self.log}") from None
        self._log.close()
        return status

    def _end(self, how: signal.Signals) -> None:
        descriptor = os.pidfd_open(self.pid)
        try:
            signal.pidfd_send_signal(descriptor, how)
            if not _ends(descriptor, STOP_SECONDS):
                raise AssertionError(f"the server did not end after {how.name}\n{self.log}")
        finally:
            os.close(descriptor)

    def sweep(self) -> None:
        """End whatever a failed test left, as an operator would, and kill what is left then."""
        if self.keeper.poll() is None:
            with contextlib.suppress(AssertionError, OSError, RuntimeError):
                self._end_sandboxes()
        deadline = time.monotonic() + STOP_SECONDS
        while self.keeper.poll() is None:
            assert time.monotonic() < deadline, f"cannot be killed: {self.descendants()}"
            for pid in self.descendants():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    _thaw(pid)  # or it would not die
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.keeper.wait(0.1)
        self._log.close()

    def _end_sandboxes(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.terminate()
        again = start_server(self.runtime, self.home, flags=("--stop-sandboxes",))
        again.terminate()
        again.wait_until_nothing_is_left()


class _Log:
    """Collects what a server writes and knows when it listens."""

    def __init__(self, stream: IO[str]) -> None:
        self.lines: list[str] = []
        self.port = 0
        self._stream = stream
        self._is_known = threading.Event()  # it listens, or has ended before it did
        self._reader = threading.Thread(target=self._read, name="server log")
        self._reader.start()

    def wait_for_port(self) -> int:
        """Return the port, or 0 when there will be none."""
        self._is_known.wait(PATIENCE)
        return self.port

    def close(self) -> None:
        """Wait for the end of the log: nobody holds it any more."""
        self._reader.join(STOP_SECONDS)
        assert not self._reader.is_alive(), "a process outside of the tree holds the server's log"

    def _read(self) -> None:
        with self._stream:
            for line in self._stream:
                self.lines.append(line)
                address = line.partition("listening on http://")[2].split(" ")[0]
                if address and not self.port:
                    self.port = int(address.rpartition(":")[2])
                    self._is_known.set()
        self._is_known.set()


def start_server(
    runtime: RuntimeName,
    home: Path,
    *,
    port: int = 0,
    flags: Sequence[str] = (),
    python: str = sys.executable,
    programs: Path = PROGRAMS,
) -> Server:
    """Start a server on home/data and return when it listens; python is whose server it is."""
    for program in ("execd", "ingress"):
        if not (programs / program).exists():
            raise FileNotFoundError(f"{programs / program} is missing; run: make build")
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    command = [python, "-m", "opensandbox_server", f"--port={port}", f"--runtime={runtime}"]
    keeper = subprocess.Popen(
        [sys.executable, str(_KEEPER), *command, f"--data-dir={home / 'data'}", *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home,
        env={
            **_clean_environment(),
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "OPENSANDBOX_SERVER_API_KEY": API_KEY,
            "OPENSANDBOX_BIN_DIR": str(programs),
        },
    )
    assert keeper.stdout is not None
    assert keeper.stderr is not None
    with keeper.stdout as announced:
        pid = int(announced.readline())
    log = _Log(keeper.stderr)
    server = Server(runtime, home, log.wait_for_port(), pid, keeper, log)
    if not server.port:
        server.sweep()
        raise RuntimeError(f"the server does not listen:\n{server.log}")
    return server


@contextlib.contextmanager
def run_server(runtime: RuntimeName, home: Path, *flags: str) -> Iterator[Server]:
    """Run a server on home/data; when the block ends it must end well and leave no process."""
    started = start_server(runtime, home, flags=flags)
    try:
        yield started
        started.terminate()
        assert started.wait_until_nothing_is_left() == 0
    finally:
        started.sweep()


@contextlib.contextmanager
def shared_server(runtime: RuntimeName) -> Iterator[Server]:
    """Run a server for many tests, which leave no sandbox, or skip them where it cannot run."""
    if reason := obstacle(runtime):
        pytest.skip(reason)
    with make_home() as home, run_server(runtime, home) as started:
        yield started


@contextlib.contextmanager
def make_home() -> Iterator[Path]:
    """Make a directory for a server. Its path is short: names of sockets have a limit."""
    home = Path(tempfile.mkdtemp(prefix="osb-e2e-"))
    try:
        yield home
    finally:
        shutil.rmtree(home)


class NotServing(Exception):
    """The server ended before it listened; the message is what it said."""


@dataclass
class Serving:
    """A server that listens, for a block."""

    url: str
    process: subprocess.Popen[bytes]
    said: Path

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self.said.read_text()

    def client(self, key: str = API_KEY) -> httpx.Client:
        """Return a client with a key."""
        return httpx.Client(
            base_url=f"{self.url}/v1",
            headers={"OPEN-SANDBOX-API-KEY": key},
            timeout=30,
            verify=False,  # there is no TLS, and to prepare it takes longer than most requests
        )

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Signal it, and return its status once it is gone."""
        self.process.send_signal(how)
        return self.process.wait(STOP_SECONDS)


@contextlib.contextmanager
def serving(
    data_dir: Path,
    *flags: str,
    key: str | None = API_KEY,
    around: Sequence[str] = (),
    program: Sequence[str] = (sys.executable, "-m", "opensandbox_server"),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Serving]:
    """Run a server on any free port, by a command around it if need be. Raises NotServing."""
    home = data_dir.parent
    home.mkdir(parents=True, exist_ok=True)
    said = home / f"{data_dir.name}.{time.monotonic_ns()}.log"
    variables = {**(_clean_environment() if environment is None else environment)}
    variables |= {"HOME": str(home)} | ({"OPENSANDBOX_SERVER_API_KEY": key} if key else {})
    with said.open("wb") as output:
        process = subprocess.Popen(
            [*around, *program, "--port", "0", "--data-dir", str(data_dir), *flags],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home,
            env=variables,
        )
    try:
        yield Serving(_address(process, said), process, said)
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _address(process: subprocess.Popen[bytes], said: Path) -> str:
    """Wait for the address it listens on."""

    def found() -> re.Match[str] | None:
        return re.search(r"listening on (http://\S+)", said.read_text())

    eventually(lambda: found() or process.poll() is not None, said.read_text)
    if listens := found():
        return listens[1]
    raise NotServing(said.read_text())


def _clean_environment() -> dict[str, str]:
    """Leave out what would configure the server or the client behind our back."""
    ours = ("OPENSANDBOX_", "OPEN_SANDBOX_", "SANDBOX_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _below(pid: int) -> Iterator[int]:
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, thread.read_text().split()):
                if not _is_zombie(child):
                    yield child
                yield from _below(child)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith(("Z", "X"))
    except OSError:
        return True


def _thaw(pid: int) -> None:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "freezer":
            Path(f"/sys/fs/cgroup/freezer{path}/freezer.state").write_text("THAWED")
        elif not controllers:
            with contextlib.suppress(OSError):
                Path(f"/sys/fs/cgroup{path}/cgroup.freeze").write_text("0")


def _describe(pid: int) -> str:
    with contextlib.suppress(OSError):
        return f"{pid}: {Path(f'/proc/{pid}/cmdline').read_bytes().replace(bytes(1), b' ')!r}"
    return f"{pid}: gone"


def _ends(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
