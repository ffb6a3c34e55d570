# SPDX-License-Identifier: Apache-2.0
"""`images build` for real: the image base, by what the wheels install. Run by `make images`."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from opensandbox_server.runtimes.oci.images import ImageStore
from opensandbox_server.runtimes.oci.images.recipe import read_recipe
from tests.environments import CACHE
from tests.harness.wait import eventually
from tests.images.conftest import MIRROR, Images, opened

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0
UV = str(CACHE / "tools" / "bin" / "uv")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="images are built as root")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server from wheels, away from this tree."""
    place = tmp_path_factory.mktemp("installed")
    environ = os.environ | {"PATH": f"{CACHE / 'tools' / 'bin'}:{os.environ['PATH']}"}
    for package in ("sdks/python", "server"):
        build = [UV, "build", "--quiet", "--wheel", "--out-dir", str(place), str(ROOT / package)]
        subprocess.run(build, check=True, env=environ)
    home = place / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(home)], check=True)
    install = [UV, "pip", "install", "--quiet", "--python", str(home / "bin" / "python")]
    subprocess.run([*install, *map(str, place.glob("*.whl"))], check=True)
    return home / "bin" / "opensandbox-server"


@pytest.mark.timeout(600)
def test_a_sandbox_runs_from_the_image_that_an_installed_server_built(
    data_dir: Path, images: Images, installed: Path
) -> None:
    words = ["images", "build", "base", "--mirror", MIRROR, "--data-dir", str(data_dir)]
    built = subprocess.run(
        [str(installed), *words], capture_output=True, text=True, check=False, cwd=data_dir.parent
    )
    assert built.returncode == 0, built.stderr
    assert built.stdout.startswith("opensandbox/base is here (")
    steps = len(read_recipe("base", {}, {}).steps) + 1
    assert built.stderr.startswith(f"build: 1/{steps} a minimal Debian\n")
    assert f"build: {steps}/{steps} RUN " in built.stderr
    assert "opensandbox/base" in images("list").stdout
    with opened(data_dir) as home:
        box = home.start("opensandbox/base:v9")
        assert "Debian" in box.sh("cat /etc/os-release").output
        assert box.sh("python3 -c 'print(6 * 7)'").output == "42"
        assert box.sh("curl --version && git --version && ps --version").status == 0
        assert box.sh("stat -c %u:%g:%a /bin/su").output == "0:0:4755"
        assert box.sh("stat -c %u:%g:%a /etc/shadow").output == "0:42:640"
        listed = json.loads(box.sh("cat /usr/share/opensandbox/sbom.cdx.json").output)
    (root,) = data_dir.glob("images/opensandbox-base-*/rootfs")
    assert not (root / "etc" / "hostname").exists()  # that of this machine
    assert [path for path in root.glob("run/*") if not path.is_dir()] == []
    beside = root.parent / "sbom.cdx.json"
    assert json.loads(beside.read_text()) == listed
    assert "bash" in {component["name"] for component in listed["components"]}


def test_packages_that_cannot_be_had_are_told_and_leave_nothing(
    data_dir: Path, images: Images
) -> None:
    refused = images("build", "base", "--mirror", "http://127.0.0.1:1/debian")
    assert refused.returncode == 1
    *progress, complaint = refused.stderr.splitlines()
    assert all(line.startswith("build: ") for line in progress)
    assert "mmdebstrap failed at a minimal Debian: " in complaint
    assert list(data_dir.glob("images/*")) == []
    assert list(data_dir.glob("images/.new-*")) == []


def test_a_build_that_is_killed_goes_on_nowhere(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a mirror that never answers
        silent.settimeout(SECONDS)
        mirror = f"http://127.0.0.1:{silent.getsockname()[1]}/debian"
        words = [sys.executable, "-m", "opensandbox_server", "images", "build", "base"]
        words += ["--mirror", mirror, "--data-dir", str(data_dir)]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as building:
            connection, _ = silent.accept()
            assert at_work(data_dir)
            building.kill()
        eventually(lambda: not at_work(data_dir), lambda: at_work(data_dir))
        connection.close()
    ImageStore(data_dir).sweep()
    assert list(data_dir.glob("images/.new-*")) == []


def at_work(data_dir: Path) -> list[str]:
    """Return the command lines that name the directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # ended in this moment
            found.append(process.read_text(errors="replace").replace("\0", " "))
    return [line for line in found if str(data_dir) in line]
