# SPDX-License-Identifier: Apache-2.0
"""The published client speaks the recorded exchanges that ours is tested with."""

import subprocess
from pathlib import Path

import pytest

from tests.harness.exchanges import API_KEY, EXCHANGES, replaying
from tests.published.environment import published_python

PROGRAM = Path(__file__).with_name("exchanges.py")
CALLS = EXCHANGES.parents[1] / "sdks" / "python" / "tests"


@pytest.mark.parametrize("half", ["_async", "_sync"])
@pytest.mark.parametrize("name", sorted(file.stem for file in EXCHANGES.glob("*.json")))
def test_the_published_client_says_what_was_recorded(name: str, half: str) -> None:
    program = [str(published_python()), str(PROGRAM), str(CALLS / half / "calls.py")]
    with replaying(name) as replay:
        finished = subprocess.run(
            [*program, name, replay.domain, API_KEY],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert finished.returncode == 0, finished.stderr
