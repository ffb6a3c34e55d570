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

from tools.cluster.component import ClusterError

SOURCE = Path(__file__).parent / "components"
DNS_SOURCE = Path(__file__).parent / "coredns"
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
    built = Binary(CACHE / f"kubernetes-{_fingerprint()}")
    if built.kube.exists():
        return built
    CACHE.mkdir(parents=True, exist_ok=True)
    with _only_one():
        if not built.kube.exists():
            _build_into(built.directory)
    return built


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{_go('version')} {_flags()}".encode())
    for source in (SOURCE, DNS_SOURCE):
        for file in sorted(source.rglob("*")):
            is_built = file.suffix == ".go" and not file.name.endswith("_test.go")
            if is_built or file.name in {"go.mod", "go.sum"}:
                digest.update(f"{file.relative_to(SOURCE.parent)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _flags() -> list[str]:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    assigned = [f"-X {at}.{name}={value}" for at in _STAMPED for name, value in stamps.items()]
    linked = " ".join(["-s -w", *assigned])
    return ["-trimpath", "-buildvcs=false", f"-tags={TAGS}", f"-ldflags={linked}"]


def _build_into(directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=".kubernetes-") as scratch:
        place = Path(scratch) / "built"
        place.mkdir()
        print(f"build: Kubernetes {kubernetes_version()}, once; takes minutes", flush=True)
        _compile(place / "pause", SOURCE, "./pause")
        _compile(place / "coredns", DNS_SOURCE, ".")
        _compile(place / "kube", SOURCE, ".")
        shutil.rmtree(directory, ignore_errors=True)
        place.rename(directory)


def _compile(program: Path, source: Path, package: str) -> None:
    total = len(_go("list", "-deps", f"-tags={TAGS}", package, source=source).splitlines())
    command = ["go", "build", "-v", *_flags(), "-o", str(program), package]
    said: list[str] = []
    started = shown = time.monotonic()
    with subprocess.Popen(
        command, cwd=source, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        for line in process.stderr:
            said.append(line.rstrip())
            now = time.monotonic()
            if now - shown >= _PROGRESS_SECONDS:
                shown = now
                print(
                    f"build: {program.name}, {len(said)} of at most {total} packages, "
                    f"{now - started:.0f} s",
                    flush=True,
                )
    if process.returncode:
        raise ClusterError(f"go build failed in {source}: {' | '.join(said[-5:])}")
    print(f"build: {program.name} is built, {time.monotonic() - started:.0f} s", flush=True)


def _go(*arguments: str, source: Path = SOURCE) -> str:
    try:
        done = subprocess.run(
            ["go", *arguments],
            cwd=source,
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
    with (CACHE / "kubernetes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
