# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server of the tests' own, which ends with them, however they end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

START_SECONDS = 60.0
_CONFIG = """
fsync = off
full_page_writes = off
autovacuum = off
listen_addresses = ''
unix_socket_directories = '{}'
dynamic_shared_memory_type = mmap
max_connections = 200
shared_buffers = 16MB
"""
_WHO = """
local all guarded scram-sha-256
local all all trust
"""
_SOMEBODY = "65534"
_NO_PG: Mapping[str, str] = {k: v for k, v in os.environ.items() if not k.startswith("PG")}


class PostgresServer:
    """One cluster in a directory, reached by a socket in it; only `guarded` needs a password."""

    def __init__(self, directory: Path) -> None:
        """Make the cluster; see start."""
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = 0
        options = ["--no-sync", "--no-instructions", "--auth=trust", "--username=postgres"]
        locale = ["--encoding=UTF8", "--locale=C.UTF-8"]
        made = subprocess.run(
            [*_as_somebody(), _program("initdb"), "-D", self._data, *options, *locale],
            capture_output=True,
            text=True,
            env=_NO_PG,
        )
        assert made.returncode == 0, made.stderr
        (self._data / "postgresql.auto.conf").write_text(_CONFIG.format(directory))
        (self._data / "pg_hba.conf").write_text(_WHO)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def url(self, user: str = "postgres", database: str = "postgres", **more: str) -> str:
        """Return an address of a database."""
        query = "&".join(f"{k}={v}" for k, v in ({"host": str(self.directory)} | more).items())
        return f"postgresql://{user}@/{database}?{query}"

    def new_schema(self) -> str:
        """Return the address of an empty schema."""
        self._schemas += 1
        self.execute(f"CREATE SCHEMA s{self._schemas}")
        return self.url(search_path=f"s{self._schemas}")

    def start(self) -> None:
        """Start it; answers when this returns."""
        alone = ["setpriv", "--pdeathsig", "KILL", *_as_somebody("--ipc", "--pid", "--fork")]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*alone, _program("postgres"), "-D", self._data],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_NO_PG,
            )
        deadline = time.monotonic() + START_SECONDS
        ask = [str(_program("pg_isready")), "--quiet", "-h", str(self.directory)]
        while subprocess.run(ask, env=_NO_PG).returncode:
            assert self._process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < deadline, (self.directory / "log").read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it; connections are closed."""
        if self._process:
            os.kill(self._postmaster, signal.SIGINT)
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """Let it die with everything that it was about to do."""
        if self._process:
            os.kill(self._postmaster, signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Let nothing of it run meanwhile, as if the network were gone."""
        pids = [self._postmaster, *_children(self._postmaster)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def execute(self, text: str, url: str = "") -> str:
        """Say something to it, and return the answer."""
        words = ["--no-psqlrc", "--quiet", "-At", "-v", "ON_ERROR_STOP=1", "-c", text]
        done = subprocess.run(
            [_program("psql"), *words, url or self.url()],
            capture_output=True,
            text=True,
            env=_NO_PG,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def _postmaster(self) -> int:
        """The process, which may be the child of the one that made its namespaces."""
        assert self._process
        return (
            next(iter(_children(self._process.pid)), self._process.pid)
            if _is_root()
            else (self._process.pid)
        )


@contextlib.contextmanager
def postgres_server(directory: Path) -> Iterator[PostgresServer]:
    """Have a server, and nothing of it afterwards."""
    server = PostgresServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(directory / "data")


def _program(name: str) -> Path:
    """Return the newest that Debian has installed; it is on nobody's PATH."""
    found = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4])
    )
    assert found, "PostgreSQL is not installed; run scripts/setup dev"
    return found[-1]


def _as_somebody(*namespaces: str) -> Sequence[str]:
    """Return what makes a program believe that it is not root, which PostgreSQL refuses to be.

    In namespaces of its own nothing of it can be left behind, neither processes nor memory.
    """
    if not _is_root():
        return ()
    who = [f"--map-user={_SOMEBODY}", f"--map-group={_SOMEBODY}"]
    kill = ["--kill-child"] if "--fork" in namespaces else []
    return ["unshare", "--user", *who, *namespaces, *kill]


def _is_root() -> bool:
    return os.geteuid() == 0


def _children(pid: int) -> Sequence[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
