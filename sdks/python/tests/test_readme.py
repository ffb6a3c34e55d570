# SPDX-License-Identifier: Apache-2.0
"""What the README shows works."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.lifecycle import StandIn

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
PRINTED = ["hello 3\nhello\n", "no shell here\n"]


@pytest.mark.parametrize(("example", "printed"), list(zip(EXAMPLES, PRINTED, strict=True)))
def test_an_example_of_the_readme_runs(
    standin: StandIn, workdir: str, example: str, printed: str
) -> None:
    program = example.replace("/tmp/", f"{workdir}/")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (printed, "")
    assert standin.sandboxes == {}
