# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes programs: built once from their Go module, kept outside the clone by content."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.component import ClusterError

SOURCE = Path(__file__).parent / "components"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opensandbox"
TAGS = "grpcnotrace"
_PROGRESS_SECONDS = 15.0
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
"""Packages that hold the version; without it the programs say v0.0.0."""


@dataclass(frozen=True)
class Binary:
    """Where the built programs are."""

    directory: Path

    @property
    def kube(self) -> Path:
        """Every program of the cluster in one file."""
        return self.directory / "kube"

    @property
    def pause(self) -> Path:
        """What holds the namespaces of a pod."""
        return self.directory / "pause"


def kubernetes_version() -> str:
    """Return the release that the module asks for, such as v1.34.4."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (SOURCE / "go.mod").read_text(), re.M)
    assert found, "components/go.mod does not require k8s.io/kubernetes"
    return found[1]


def build() -> Binary:
    """Return the built programs; build them first when their sources changed."""
    built = Binary(CACHE / f"cluster-{_fingerprint()}")
    if built.kube.exists():
        return built
    CACHE.mkdir(parents=True, exist_ok=True)
    with _only_one():
        if not built.kube.exists():
            _build_into(built.directory)
    return built


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{_go('version')} {_flags()}".encode())
    for file in sorted(SOURCE.rglob("*")):
        if file.suffix == ".go" or file.name in {"go.mod", "go.sum"}:
            digest.update(f"{file.relative_to(SOURCE)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _flags() -> list[str]:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    assigned = [f"-X {at}.{name}={value}" for at in _STAMPED for name, value in stamps.items()]
    linked = " ".join(["-s -w", *assigned])
    return ["-trimpath", "-buildvcs=false", f"-tags={TAGS}", f"-ldflags={linked}"]


def _build_into(directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=".cluster-") as scratch:
        place = Path(scratch) / "built"
        place.mkdir()
        _compile(place / "pause", "./pause", "the pause program")
        _compile(place / "kube", ".", f"Kubernetes {kubernetes_version()} (once; takes minutes)")
        shutil.rmtree(directory, ignore_errors=True)
        place.rename(directory)


def _compile(program: Path, package: str, what: str) -> None:
    print(f"build: {what}", flush=True)
    total = len(_go("list", "-deps", f"-tags={TAGS}", package).splitlines())
    command = ["go", "build", "-v", *_flags(), "-o", str(program), package]
    said: list[str] = []
    started = shown = time.monotonic()
    with subprocess.Popen(
        command, cwd=SOURCE, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        for line in process.stderr:
            said.append(line.rstrip())
            now = time.monotonic()
            if now - shown >= _PROGRESS_SECONDS:
                shown = now
                print(f"build: {len(said)} of at most {total} packages, {now - started:.0f} s")
    if process.returncode:
        raise ClusterError(f"go build failed in {SOURCE}: {' | '.join(said[-5:])}")
    print(f"build: {program.name} is built, {time.monotonic() - started:.0f} s", flush=True)


def _go(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["go", *arguments],
            cwd=SOURCE,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ClusterError("go is not installed; run scripts/setup cluster") from None
    if done.returncode:
        raise ClusterError(f"go {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


def environment() -> dict[str, str]:
    """Return what Go is called with."""
    path = f"{CACHE / 'tools/bin'}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}


@contextmanager
def _only_one() -> Iterator[None]:
    with (CACHE / "cluster.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
