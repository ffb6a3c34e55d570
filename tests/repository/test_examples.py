# SPDX-License-Identifier: Apache-2.0
"""The programs in the documentation run and print what is shown below them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import (
    API_KEY,
    RUNTIMES,
    RuntimeName,
    Server,
    make_home,
    obstacle,
    start_server,
)

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/pools.md", "docs/sdk-python.md")
PROGRAM = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
EXAMPLES = [
    pytest.param(found[1], found[2], id=f"{Path(page).stem}-{number}")
    for page in PAGES
    for number, found in enumerate(PROGRAM.finditer((ROOT / page).read_text()), 1)
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=RUNTIMES)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One server for all examples; they leave no sandbox."""
    runtime: RuntimeName = request.param
    if reason := obstacle(runtime):
        pytest.skip(reason)
    with make_home() as home:
        started = start_server(runtime, home)
        try:
            yield started
            started.terminate()
            assert started.wait_until_nothing_is_left() == 0
        finally:
            started.sweep()


@pytest.mark.parametrize(("program", "printed"), EXAMPLES)
def test_an_example_prints_what_is_shown(
    server: Server, tmp_path: Path, program: str, printed: str | None
) -> None:
    assert printed is not None, "what it prints is not shown below it"
    if server.runtime == "fake":  # whose sandboxes have the files of this machine
        program = program.replace("/workspace", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "OPEN_SANDBOX_DOMAIN": server.domain,
            "OPEN_SANDBOX_API_KEY": API_KEY,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (printed, "")


def test_every_program_is_found() -> None:
    text = "".join((ROOT / page).read_text() for page in PAGES)
    assert len(EXAMPLES) == text.count("```python") > 5
