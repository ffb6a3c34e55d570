# SPDX-License-Identifier: Apache-2.0
"""The same recipes with a real Docker engine, as their page says. Run by `make images`.

The engine is our own: its files in a directory of the test, in namespaces that take every process
and mount with them, and with no network of its own. There is no registry here, so the image that
`base` begins with is imported under its name.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.sandbox.docker import find_programs
from benchmarks.sandbox.rootfs import Unavailable
from opensandbox_server.runtimes.oci.images.recipe import read_recipe
from tests.harness.wait import eventually
from tests.images.conftest import MIRROR

ROOT = Path(__file__).resolve().parents[2]
LOCAL_CERTIFICATES = Path("/usr/local/share/ca-certificates")
SECONDS = 60.0
BUILD_SECONDS = 1500.0

pytestmark = [
    pytest.mark.timeout(BUILD_SECONDS),
    pytest.mark.skipif(os.geteuid() != 0, reason="a Docker engine needs root"),
]


class Docker:
    """A client of one engine."""

    def __init__(self, program: str, socket: Path) -> None:
        self._command = [program, "--host", f"unix://{socket}"]

    def run(self, *words: str) -> str:
        """Run a command of the client that must succeed, and return its output."""
        done = self.attempt(*words)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout.strip()

    def attempt(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the client."""
        return subprocess.run(
            [*self._command, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            timeout=BUILD_SECONDS,
            # Debian's client comes without the newer builder.
            env=os.environ | {"DOCKER_BUILDKIT": "0"},
        )


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """An engine that has the image debian:bookworm-slim."""
    home = tmp_path_factory.mktemp("docker")
    try:
        path = find_programs(may_fetch=True)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with running_engine(home, path) as engine:
        suite = read_recipe("base", {}, {}).suite
        engine.run("import", str(debian(home, suite)), f"debian:{suite}-slim")
        yield engine


@contextlib.contextmanager
def running_engine(home: Path, path: str) -> Iterator[Docker]:
    """Run an engine below home; nothing of it is left."""
    program = shutil.which("docker", path=path)
    assert program
    client = Docker(program, home / "socket")
    spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    daemon = ["dockerd", f"--data-root={home}/data", f"--exec-root={home}/exec"]
    daemon += [f"--host=unix://{home}/socket", f"--pidfile={home}/pid", "--log-level=warn"]
    daemon += [
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
        "--storage-driver=overlay2",
    ]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [*spaces, *daemon], stdout=log, stderr=log, env=os.environ | {"PATH": path}
        )
    try:
        said = (home / "log").read_text
        eventually(
            lambda: process.poll() is not None or not client.attempt("version").returncode, said
        )
        assert process.poll() is None, said()
        yield client
    finally:
        process.kill()  # and with it everything in its namespaces
        process.wait(SECONDS)


def debian(home: Path, suite: str) -> Path:
    """Make a minimal Debian that trusts whom this machine trusts."""
    archive = home / "debian.tar"
    command = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates"]
    if LOCAL_CERTIFICATES.is_dir():
        command += [f"--customize-hook=copy-in {LOCAL_CERTIFICATES} {LOCAL_CERTIFICATES.parent}"]
        command += ['--customize-hook=chroot "$1" update-ca-certificates']
    subprocess.run([*command, suite, str(archive), MIRROR], check=True, timeout=BUILD_SECONDS)
    return archive


@pytest.fixture(scope="module")
def image(docker: Docker) -> str:
    """The image, built as its page says but for the network, which is the machine's."""
    for name in ("base", "code-interpreter"):
        words = ["--network=host", "--build-arg", "PIP_INDEX_URL", "--tag", f"opensandbox/{name}"]
        docker.run("build", "--quiet", *words, f"sandboxes/{name}")
    return "opensandbox/code-interpreter"


def test_every_interpreter_runs_in_a_container(docker: Docker, image: str) -> None:
    run = ("run", "--rm", "--network=none", image)
    python = "import polars, pandas, sklearn, scipy, matplotlib.pyplot, IPython; print(6 * 7)"
    assert docker.run(*run, "python3", "-c", python) == "42"
    assert docker.run(*run, "node", "-p", "6 * 7") == "42"
    assert "go1." in docker.run(*run, "go", "version")
    jshell = "echo 'System.out.println(6 * 7)' | jshell -s -"
    assert docker.run(*run, "bash", "-c", jshell) == "42"


def test_the_list_of_contents_is_in_it(docker: Docker, image: str) -> None:
    show = ("cat", "/usr/share/opensandbox/sbom.cdx.json")
    listed = json.loads(docker.run("run", "--rm", "--network=none", image, *show))
    names = {component["name"] for component in listed["components"]}
    assert {"bash", "go", "node", "openjdk-17-jdk-headless", "polars", "python3.11"} <= names


@pytest.mark.parametrize("place", ["opensandbox", "code-interpreter"])
def test_the_entrypoint_is_ended_by_sigterm(docker: Docker, image: str, place: str) -> None:
    command = f"/opt/{place}/code-interpreter.sh"
    container = docker.run("run", "--detach", "--network=none", image, command)
    docker.run("stop", "--time", str(int(SECONDS)), container)
    assert docker.run("inspect", "--format", "{{.State.ExitCode}}", container) == "0"


def test_without_a_command_it_stays(docker: Docker, image: str) -> None:
    container = docker.run("run", "--detach", "--network=none", image)
    assert docker.run("exec", container, "pwd") == "/workspace"
    docker.run("stop", "--time", str(int(SECONDS)), container)
