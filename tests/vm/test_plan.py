# SPDX-License-Identifier: Apache-2.0
"""What is counted of what ran in the machine, and what an image is named for."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.vm.agent import CUT_OFF
from tests.vm.plan import PARTS, Part, Result, counts_in
from tests.vm.recipe import ROOT, SUITES, fingerprint, mmdebstrap, requirements

PART = Part("one", "true", 2)


def test_tests_are_counted_by_the_last_line_that_says_so() -> None:
    said = (
        "3 passed, 1 failed in 2.0s\n\n2 failed, 7 passed, 1 skipped, 1 error in 9.1s (0:00:09)\n"
    )
    counts = counts_in(said, 1)
    assert counts == {"failed": 2, "passed": 7, "skipped": 1, "error": 1}
    assert str(Result(PART, 1, counts)) == "7 passed, 2 failed, 1 error, 1 skipped"


def test_a_plain_command_counts_as_one() -> None:
    assert str(Result(PART, 0, counts_in("hello\n", 0))) == "1 passed"
    assert str(Result(PART, 4, counts_in("", 4))) == "1 failed"
    assert str(Result(PART, CUT_OFF, {})) == "cut off after 2 minutes"


def test_an_image_is_named_for_its_suite_and_what_is_in_it() -> None:
    names = {fingerprint(suite) for suite in SUITES.values()}
    assert len(names) == len(SUITES)
    wanted, constraints = requirements()
    assert any(entry.startswith("pytest==") for entry in wanted)
    assert len(constraints) > 30


def test_the_recipe_is_complete(tmp_path: Path) -> None:
    words = mmdebstrap(SUITES["bookworm"], tmp_path / "root", tmp_path / "additions")
    assert words[0] == "mmdebstrap"
    for hook in words:
        if "-hook=" in hook:
            shell = hook.partition("-hook=")[2]
            subprocess.run(["sh", "-n", "-c", shell], check=True)


def test_what_the_parts_run_is_in_this_clone() -> None:
    for part in PARTS:
        for word in part.command.split():
            if word.startswith(("tests/", "server/", "scripts/")):
                assert (ROOT / word.partition("::")[0]).exists(), word
