# SPDX-License-Identifier: Apache-2.0
"""The image code-interpreter, built from its recipe and used for what it is for.

Run by `make images`. It has a second version of Node, to have something to choose from.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from code_interpreter import CodeInterpreterSync
from opensandbox import SandboxSync
from tests.code import published_cells
from tests.code.test_published_client import FAILURES
from tests.docs.blocks import find_blocks
from tests.harness.server import API_KEY, Server, make_home, obstacle, run_server
from tests.harness.wait import eventually
from tests.images.conftest import MIRROR
from tests.images.picture import read_png
from tests.published.environment import published_python

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "opensandbox/code-interpreter:v1.0.1"
ENTRYPOINTS = ("/opt/opensandbox/code-interpreter.sh", "/opt/code-interpreter/code-interpreter.sh")
SBOM = "/usr/share/opensandbox/sbom.cdx.json"
BUILD_SECONDS = 1200.0
"""Bounds a build that downloads everything on a slow machine."""
SECONDS = 60.0

pytestmark = [
    pytest.mark.timeout(BUILD_SECONDS),
    pytest.mark.skipif(bool(obstacle("oci")), reason=obstacle("oci")),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that has the image."""
    with make_home() as home:
        build = [sys.executable, "-m", "opensandbox_server", "images", "build", "code-interpreter"]
        build += ["--build-arg", "NODE=24 22", "--mirror", MIRROR, "--data-dir", str(home / "data")]
        # What it says is shown by pytest when something fails.
        subprocess.run(build, check=True, timeout=BUILD_SECONDS)
        with run_server("oci", home) as started:
            yield started


Make = Callable[..., SandboxSync]


@pytest.fixture
def make(server: Server) -> Iterator[Make]:
    """Make sandboxes of the image that end with the test."""
    made: list[SandboxSync] = []

    def create(entrypoint: str = ENTRYPOINTS[0], **env: str) -> SandboxSync:
        sandbox = SandboxSync.create(
            IMAGE, entrypoint=[entrypoint], env=env, connection_config=server.sync_config
        )
        made.append(sandbox)
        return sandbox

    yield create
    for sandbox in made:
        sandbox.destroy()


def said(sandbox: SandboxSync, command: str) -> str:
    """Run a command that must succeed, and return its output."""
    execution = sandbox.commands.run(command)
    assert execution.exit_code == 0, execution
    return execution.text.strip()


def client_of(server: Server) -> dict[str, str]:
    """Return how clients find the server."""
    return {"OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": API_KEY}


@pytest.mark.parametrize("client", ["ours", "published"])
def test_the_program_of_the_page_runs_as_printed(server: Server, client: str) -> None:
    page = (ROOT / "docs" / "images.md").read_text()
    (program,) = (block for block in find_blocks("images.md", page) if block.language == "python")
    python = str(published_python()) if client == "published" else sys.executable
    done = subprocess.run(
        [python, "-c", program.text],
        env=os.environ | client_of(server),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert program.output
    assert program.output.promises(done.stdout), done.stdout
    assert client == "published" or done.stderr == ""  # the published one tells what it sends


@pytest.mark.parametrize("language", FAILURES)
def test_the_published_client_runs_cells_of_each_language(server: Server, language: str) -> None:
    done = subprocess.run(
        [str(published_python()), published_cells.__file__, server.domain, language],
        env=os.environ | {"SANDBOX_IMAGE": IMAGE, "SANDBOX_API_KEY": API_KEY},
        capture_output=True,
        text=True,
        timeout=4 * SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["error"] for one in told] == [None, None, None, FAILURES[language]]
    assert told[2]["out"] == "grüße\n"
    assert language == "bash" or [told[1]["result"], told[2]["result"]] == [["42"], ["20"]]


def test_a_plot_comes_as_a_picture_and_as_data(make: Make) -> None:
    code = """
        import matplotlib.pyplot as plt
        import numpy as np
        x = np.linspace(0, 2 * np.pi, 50)
        plt.plot(x, np.sin(x), label="sine")
        plt.title("Waves")
        plt.legend()
        None
    """
    execution = CodeInterpreterSync.create(make()).codes.run(code, language="python")
    assert execution.error is None
    assert [line.text for line in execution.logs.stderr] == []  # as when fonts are looked for
    (figure,) = execution.result
    picture = figure._repr_png_()
    assert picture
    drawn = read_png(picture)
    assert drawn.width > 300
    assert drawn.height > 200
    assert len(drawn.colours) > 10
    assert figure.chart
    assert (figure.chart.axes[0].title, figure.chart.axes[0].series[0].label) == ("Waves", "sine")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_comes_as_html(make: Make, library: str) -> None:
    codes = CodeInterpreterSync.create(make()).codes
    execution = codes.run(f"import {library}; {library}.DataFrame({{'city': ['Bern', 'Oslo']}})")
    assert execution.error is None
    (table,) = execution.result
    shown = table._repr_html_() or ""
    assert "<table" in shown
    assert "Oslo" in shown


def test_the_data_libraries_work_together(make: Make) -> None:
    code = """
        import numpy, pandas, polars, scipy.optimize, sklearn.linear_model
        import numpy.testing, pandas.testing
        frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "y": [2.0, 4.0, 6.0]})
        model = sklearn.linear_model.LinearRegression().fit(frame[["x"]], frame["y"])
        root = scipy.optimize.brentq(lambda x: x * x - 4, 0, 5)
        total = polars.from_dicts(frame.to_dict("records"))["y"].sum()
        [round(float(value), 6) for value in (model.coef_[0], root, total)]
    """
    execution = CodeInterpreterSync.create(make()).codes.run(code)
    assert execution.error is None, execution.error
    assert execution.result[0].text == "[2.0, 2.0, 12.0]"


def test_the_first_cell_of_go_finds_the_standard_library_built(make: Make) -> None:
    sandbox = make()
    count = "find /root/.cache/go-build -name '*-d' | wc -l"
    before = int(said(sandbox, count))
    kept = said(sandbox, "find /root/.cache/go-build -name '*-d' ! -newermt '+1 year' | wc -l")
    assert (before > 200, kept) == (True, "0")  # or Go throws it away when the image is old
    execution = CodeInterpreterSync.create(sandbox).codes.run(
        "strings.ToUpper(`go`)", language="go"
    )
    assert execution.result[0].text == '"GO"'
    assert int(said(sandbox, count)) - before < 30


@pytest.mark.parametrize(
    ("wanted", "found", "is_nearest"),
    [
        ({"NODE_VERSION": "22"}, "v22.", False),
        ({"NODE_VERSION": "v24.1.0"}, "v24.", False),
        ({"NODE_VERSION": "18"}, "v22.", True),
        ({"NODE_VERSION": "30"}, "v24.", True),
        ({}, "v24.", False),
    ],
)
def test_the_wanted_version_or_the_nearest_is_for_commands_and_cells(
    make: Make, wanted: dict[str, str], found: str, is_nearest: bool
) -> None:
    sandbox = make(**wanted)
    for command in ("node --version", "bash -lc 'node --version'"):
        assert said(sandbox, command).startswith(found)
    execution = CodeInterpreterSync.create(sandbox).codes.run(
        "process.version", language="javascript"
    )
    assert (execution.result[0].text or "").strip("'").startswith(found)
    log = sandbox.get_diagnostic_logs("container").content or ""
    assert log.count("the nearest, is used") == is_nearest, log


def test_a_version_that_is_not_there_is_no_reason_to_fail(make: Make) -> None:
    sandbox = make(PYTHON_VERSION="3.14", JAVA_VERSION="21", GO_VERSION="1.24", NODE_VERSION="new")
    programs = "python3 --version; go version; java -version 2>&1; node --version"
    shown = said(sandbox, programs)
    assert all(name in shown for name in ("Python 3.11", "go1.27", '"17.', "v24."))
    log = sandbox.get_diagnostic_logs("container").content or ""
    assert log.count("the nearest, is used") == 3
    assert "NODE_VERSION=new is no version" in log


def test_the_list_of_contents_is_what_the_image_has(make: Make, server: Server) -> None:
    sandbox = make()
    listed = json.loads(said(sandbox, f"cat {SBOM}"))
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    components = listed["components"]
    references = {component["bom-ref"] for component in components}
    assert len(references) == len(components)
    packages = said(sandbox, "dpkg-query -W -f '${Package}@${Version}?arch=${Architecture}\\n'")
    assert references >= {f"pkg:deb/debian/{package}" for package in packages.splitlines()}
    installed = said(sandbox, "python3 -m pip list --format json --disable-pip-version-check")
    names = {component["name"].lower() for component in components}
    for package in json.loads(installed):
        assert (
            f"pkg:pypi/{package['name'].lower().replace('_', '-')}@{package['version']}"
            in references
        )
    for command in ("node --version", "/opt/opensandbox/versions/node/22/bin/node --version"):
        assert f"pkg:generic/node@{said(sandbox, command).removeprefix('v')}" in references
    assert f"pkg:generic/go@{said(sandbox, 'go env GOVERSION').removeprefix('go')}" in references
    assert {"openjdk-17-jdk-headless", "polars", "scikit-learn", "npm", "gcc"} <= names
    (beside,) = server.data_dir.glob("images/opensandbox-code-interpreter-*/sbom.cdx.json")
    assert json.loads(beside.read_text()) == listed


def test_what_the_command_says_of_the_image_is_written_down(server: Server) -> None:
    words = [sys.executable, "-m", "opensandbox_server", "images", "list"]
    words += ["--data-dir", str(server.data_dir)]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in listed.splitlines() if "opensandbox/code-interpreter" in line)
    (described,) = server.data_dir.glob("images/opensandbox-code-interpreter-*/image.json")
    digest = json.loads(described.read_text())["digest"]
    assert digest.startswith("sha256:")
    assert digest[7:19] in line


@pytest.mark.parametrize("entrypoint", ENTRYPOINTS)
def test_an_entrypoint_stays_until_it_is_told_to_end(make: Make, entrypoint: str) -> None:
    sandbox = make(entrypoint)
    process = said(sandbox, f"pgrep -f '^/bin/sh {entrypoint}$'")
    assert sandbox.get_info().status.state == "Running"
    sandbox.commands.run(f"kill -TERM {process}")
    eventually(lambda: sandbox.get_info().status.state != "Running")
    assert sandbox.get_info().status.state == "Terminated"
