# SPDX-License-Identifier: Apache-2.0
"""Everything in the documentation that can be run is run, and prints what is shown below it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.blocks import Block, find_blocks
from tests.harness.server import API_KEY, PROGRAMS, RUNTIMES, Server, obstacle, shared_server

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/**/README.md"))
    if not any(part.startswith(".") for part in page.relative_to(ROOT).parts)
)
BLOCKS = [
    block for page in PAGES for block in find_blocks(str(page.relative_to(ROOT)), page.read_text())
]
LANGUAGES = {"python", "sh", "json", "toml", "yaml", "text"}
ELSEWHERE = {
    "make test": ".ci/run",
    "make fuzz": ".ci/run",
    "make check": ".ci/run",
    "make packages": ".ci/run",
    "make bench": "tests/benchmarks/quick.py",
    "pip install": "tests/wheels/wheels.py",
    "opensandbox-conformance": "tests/wheels/wheels.py",
    "make images": ".ci/run",
    "images build": "tests/images/build.py",
    "docker build": "tests/images/docker.py",
    "opensandbox/code-interpreter": "tests/images/code_interpreter.py",
    "make cluster": ".ci/run",
    "make vm": ".ci/run",
    "leftovers": "server/tests/oci/test_leftovers.py",
    "systemd-unit": "server/tests/test_systemd_unit.py",
    "systemctl": "tests/vm/inside/unit.py",
    "sudo -u postgres": "server/tests/test_postgres.py",
    "pytest": "scripts/test",
    "go test": "scripts/test",
}
"""How lines of a block with the tag `elsewhere` begin or what they call, and what runs them."""
RUN_SECONDS = 120.0
"""Bounds one block; the longest builds first when nothing is built yet."""

GRACE_SECONDS = 5.0
"""How long what a block left in the background may take to end."""

pytestmark = pytest.mark.slow


def blocks(language: str, *tags: str) -> list[object]:
    """Return the blocks of a language with exactly these tags, as parameters of a test."""
    chosen = [block for block in BLOCKS if (block.language, block.tags) == (language, tags)]
    return [pytest.param(block, id=block.name) for block in chosen]


@pytest.fixture(scope="module", params=RUNTIMES)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One server for all examples; they leave no sandbox."""
    with shared_server(request.param) as started:
        yield started


def reader(home: Path, **more: str) -> Mapping[str, str]:
    """Return the environment of somebody who follows the documentation in the clone."""
    settings = home / "settings.toml"
    settings.write_text("[server]\nport = 0\n")
    before = Path.home()
    return {
        **{name: value for name, value in os.environ.items() if "SANDBOX" not in name},
        "HOME": str(home),
        "GOPATH": os.environ.get("GOPATH", str(before / "go")),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(before / ".cache")),
        "PATH": f"{Path(sys.executable).parent}:{PROGRAMS}:{os.environ['PATH']}",
        "SANDBOX_CONFIG_PATH": str(settings),
        "OPENSANDBOX_BIN_DIR": str(PROGRAMS),
        "PORT": "0",
        **more,
    }


def client(server: Server) -> dict[str, str]:
    """Return how clients find the server."""
    return {"OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": API_KEY}


@pytest.mark.parametrize("block", blocks("python"))
def test_a_program_prints_what_is_shown(server: Server, tmp_path: Path, block: Block) -> None:
    assert block.output, "what it prints is not shown below it"
    program = block.text
    if server.runtime == "fake":  # whose sandboxes have the files and the network of this machine
        program = program.replace("/workspace", str(tmp_path))
        program = program.replace(", egress_enabled=False", "")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=reader(tmp_path, **client(server)),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.stderr == ""
    assert block.output.promises(done.stdout), done.stdout


@pytest.mark.parametrize("server", ["oci"], indirect=True)
@pytest.mark.parametrize("block", blocks("sh"))
def test_a_command_works_and_prints_what_is_shown(
    server: Server, tmp_path: Path, block: Block
) -> None:
    # Files, not pipes: what it starts in the background would hold a pipe open.
    printed, complaints = tmp_path / "printed", tmp_path / "complaints"
    with printed.open("w") as out, complaints.open("w") as err:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=ROOT,
            env=reader(tmp_path, **client(server)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
            start_new_session=True,
        )
        try:
            shell.wait(RUN_SECONDS)
        finally:
            end_group(shell)  # and what it left in the background
    assert shell.returncode == 0, printed.read_text() + complaints.read_text()
    if block.output:
        assert block.output.promises(printed.read_text()), printed.read_text()


@pytest.mark.skipif(bool(obstacle("oci")), reason=obstacle("oci"))
@pytest.mark.parametrize("block", blocks("sh", "serves"))
def test_each_way_to_start_a_server_starts_one(tmp_path: Path, block: Block) -> None:
    for line in block.text.splitlines():
        # Which ports are free on this machine nobody knows.
        command = line.replace("8080", "0").replace("8090", "0")
        serving = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=ROOT,
            env=reader(tmp_path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert serving.stdout
        with serving.stdout as lines:
            said = []
            try:
                for line_said in lines:
                    said.append(line_said)
                    if "listening on http://" in line_said:
                        break
                else:
                    pytest.fail("".join(said))
                os.killpg(serving.pid, signal.SIGTERM)
                serving.wait(RUN_SECONDS)
            finally:
                end_group(serving)


def end_group(process: subprocess.Popen[str]) -> None:
    """End what is left of a process and of what it started; what is asked to end tidies up."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(RUN_SECONDS)


def test_configuration_can_be_read() -> None:
    read: dict[str, Callable[[str], Any]] = {
        "json": json.loads,
        "toml": tomllib.loads,
        "yaml": yaml.safe_load,
    }
    for block in BLOCKS:
        if block.language in read:
            assert read[block.language](block.text), block.name


@pytest.mark.parametrize("block", blocks("sh", "elsewhere") + blocks("python", "elsewhere"))
def test_what_is_not_run_here_is_run_elsewhere(block: Block) -> None:
    for line in block.text.splitlines() if block.language == "sh" else [block.text]:
        command = line.partition("#")[0]
        where = {by for part, by in ELSEWHERE.items() if part in command}
        assert where, f"nothing runs: {line}"
        assert all((ROOT / by).exists() for by in where)


def test_every_block_says_what_it_is() -> None:
    known: set[tuple[str, tuple[str, ...]]] = {(language, ()) for language in LANGUAGES}
    known |= {("sh", ("serves",)), ("sh", ("elsewhere",)), ("text", ("like",))}
    known |= {("python", ("elsewhere",))}
    unknown = [block.name for block in BLOCKS if (block.language, block.tags) not in known]
    assert unknown == []
    assert len(BLOCKS) > 30


def test_a_shape_is_what_was_printed_with_other_numbers_in_it() -> None:
    (shape,) = find_blocks("page", "```text like\nstarted  12.5 ms …\n…\nend\n```\n")
    assert shape.promises("started 9 ms with pleasure\nthis\nthat\nend\n")
    assert shape.promises("started 9 ms\nend\n")
    assert not shape.promises("failed 9 ms with pleasure\nend\n")
    assert not shape.promises("started soon ms\nend\n")


def test_the_output_of_a_block_is_right_below_it() -> None:
    page = "```sh\na\n```\n\n```text\n1\n```\n\n```sh\nb\n```\nwords\n```text\n2\n```\n"
    first, _, second, _ = find_blocks("page", page)
    assert first.output
    assert first.output.text == "1\n"
    assert second.output is None
