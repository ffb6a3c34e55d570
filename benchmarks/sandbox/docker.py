# SPDX-License-Identifier: Apache-2.0
"""A Docker engine of our own to compare with: its own state, socket and cgroups.

The caller has put this process into network, mount and process namespaces of their own, so the
engine may make its bridge and rules without the machine noticing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sandbox.rootfs import CACHE, Unavailable

PACKAGES = ("docker.io", "containerd", "tini")
NEEDED = ("dockerd", "docker", "containerd", "runc")
START_SECONDS = 60.0
STOP_SECONDS = 30.0
IMAGE = "bench-base"


@dataclass(frozen=True)
class Engine:
    """A running engine."""

    host: str
    search_path: str

    def docker(self, *arguments: str) -> list[str]:
        """Return a command line of the docker client."""
        program = shutil.which("docker", path=self.search_path)
        assert program is not None
        return [program, "--host", self.host, *arguments]

    def run_first_output(self, *command: str) -> float:
        """Time `docker run` from its start to the first byte of output, in milliseconds."""
        words = self.docker("run", "--rm", IMAGE, *command)
        began = time.perf_counter()
        with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            first = running.stdout.read(1)
            took = time.perf_counter() - began
            running.stdout.read()
        if running.returncode or not first:
            raise RuntimeError(f"docker run ended with {running.returncode}")
        return took * 1000

    @contextlib.contextmanager
    def running_container(self) -> Iterator[str]:
        """Run a container that does nothing, and return its id; it is removed after the block."""
        words = self.docker("run", "--detach", "--rm", IMAGE, "sleep", "3600")
        started = subprocess.run(words, capture_output=True, text=True, check=True)
        container = started.stdout.strip()
        try:
            yield container
        finally:
            end = self.docker("rm", "--force", container)
            subprocess.run(end, capture_output=True, check=True)


@contextlib.contextmanager
def running_engine(scratch: Path, archive: Path, search_path: str) -> Iterator[Engine]:
    """Run an engine that has the archive as IMAGE. Raises Unavailable when it does not run here."""
    home = scratch / "docker"
    home.mkdir()
    engine = Engine(f"unix://{home}/docker.sock", search_path)
    cgroup = f"bench-docker-{os.getpid()}-{home.stat().st_ino}"
    with (home / "log").open("wb") as log:
        daemon = subprocess.Popen(
            _daemon_command(search_path, home, cgroup),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PATH": search_path},
        )
    try:
        _await_answer(engine, daemon, home / "log")
        imported = subprocess.run(
            engine.docker("import", str(archive), IMAGE),
            capture_output=True,
            text=True,
            check=False,
        )
        if imported.returncode:
            raise Unavailable(f"docker import: {imported.stderr.strip()}")
        yield engine
    finally:
        _stop(daemon)
        _remove_cgroups(cgroup)
        _unmount_below(home)


def find_programs(*, may_fetch: bool) -> str:
    """Return a search path that has everything; the machine's own programs come first.

    Raises Unavailable.
    """
    own = f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin"
    if _has_all(own):
        return own
    fetched = CACHE / "docker"
    path = f"{fetched}/usr/bin:{fetched}/usr/sbin:{own}"
    if not (fetched / ".complete").exists() and may_fetch:
        _fetch(fetched)
    if not _has_all(path):
        missing = [name for name in NEEDED if shutil.which(name, path=path) is None]
        raise Unavailable(f"{', '.join(missing)} missing; apt-get install -y docker.io")
    return path


def _has_all(path: str) -> bool:
    return all(shutil.which(name, path=path) for name in NEEDED)


def _fetch(target: Path) -> None:
    """Unpack the distribution's packages without installing them: no service is started."""
    shutil.rmtree(target, ignore_errors=True)
    packages = target / "packages"
    packages.mkdir(parents=True)
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        download = ["apt-get", "download", *PACKAGES]
        subprocess.run(download, cwd=packages, capture_output=True, check=True)
        for package in packages.glob("*.deb"):
            unpack = ["dpkg", "-x", str(package), str(target)]
            subprocess.run(unpack, capture_output=True, check=True)
        (target / ".complete").touch()
    shutil.rmtree(packages)


def _daemon_command(search_path: str, home: Path, cgroup: str) -> list[str]:
    program = shutil.which("dockerd", path=search_path)
    assert program is not None
    return [
        program,
        f"--data-root={home}/data",
        f"--exec-root={home}/exec",
        f"--host=unix://{home}/docker.sock",
        f"--pidfile={home}/pid",
        f"--cgroup-parent=/{cgroup}",
        "--storage-driver=overlay2",
        "--log-level=warn",
    ]


def _await_answer(engine: Engine, daemon: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run(engine.docker("version"), capture_output=True, check=False).returncode:
        if daemon.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            raise Unavailable(f"dockerd does not run here: {lines[-1]}")
        time.sleep(0.1)


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    if daemon.poll() is None:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _remove_cgroups(name: str) -> None:
    for top in (*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"*/{name}")):
        with contextlib.suppress(OSError):  # of a container that is just ending
            top.rmdir()


def _unmount_below(home: Path) -> None:
    """Undo the mounts the engine leaves, so that its files can be removed."""
    points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in sorted((p for p in points if p.startswith(f"{home}/")), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False)
