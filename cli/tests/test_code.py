# SPDX-License-Identifier: Apache-2.0
"""``osb code``: code in a sandbox, piece by piece."""

from pathlib import Path

import pytest

from cli.tests.program import Osb
from cli.tests.screen import Screen
from opensandbox_cli.cells import is_whole

# A picture of one white point; the image has no library that draws.
POINT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII="
)


@pytest.mark.slow
def test_code_of_a_pipe_is_one_piece_and_its_failure_is_the_exit_code(real_osb: Osb) -> None:
    done = real_osb.run("code", "-i", "host", stdin=b"x = 20\nprint('here')\nx + 22\n")
    assert (done.stdout, done.stderr, done.returncode) == (b"here\n42\n", b"", 0)
    done = real_osb.run("code", "-i", "host", "-c", "1 / 0")
    assert (done.stdout, done.returncode) == (b"", 1)
    assert b"ZeroDivisionError" in done.stderr
    assert real_osb.sandboxes() == []


@pytest.mark.slow
def test_another_language_in_a_sandbox_that_exists(real_osb: Osb) -> None:
    with real_osb.sandbox() as made:
        assert real_osb.print_("code", made, "-l", "bash", "-c", "echo $((6 * 7))") == "42\n"
        refused = real_osb.run("code", made, "-l", "cobol", "-c", "x")
        assert refused.returncode == 6
        assert b"cobol" in refused.stderr
        assert real_osb.run("code", made, "-i", "host", "-c", "x").returncode == 2


@pytest.mark.slow
def test_pictures_are_written_where_one_says(real_osb: Osb, tmp_path: Path) -> None:
    code = f"import base64\nfrom IPython.display import Image\nImage(base64.b64decode('{POINT}'))"
    with real_osb.sandbox() as made:
        unsaved = real_osb.run("code", made, "-c", code)
        assert b"--save DIR" in unsaved.stderr
        saved = real_osb.run("code", made, "--save", str(tmp_path / "drawn"), "-c", code)
    assert saved.returncode == 0
    assert (tmp_path / "drawn" / "picture-1.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_conversation_keeps_its_state_through_errors_and_interrupts(real_osb: Osb) -> None:
    with real_osb.sandbox() as made, Screen(real_osb, "code", made) as screen:
        seen = screen.wait_for(">>> ")
        screen.press("x = 20\n")
        seen = screen.wait_for(">>> ", after=seen)
        screen.press("def double(n):\n")
        seen = screen.wait_for("... ", after=seen)
        screen.press("    return 2 * n\n")
        seen = screen.wait_for("... ", after=seen)
        screen.press("\n")
        seen = screen.wait_for(">>> ", after=seen)
        screen.press("missing\n")
        seen = screen.wait_for("NameError", after=seen)
        seen = screen.wait_for(">>> ", after=seen)
        screen.press("print('begun', flush=True)\n")
        seen = screen.wait_for(">>> ", after=seen)
        screen.press("for _ in [print('go' + 'ing', flush=True)]: exec('while True: pass')\n\n")
        seen = screen.wait_for("going", after=seen)
        screen.press("\x03")
        seen = screen.wait_for("KeyboardInterrupt", after=seen)
        seen = screen.wait_for(">>> ", after=seen)
        screen.press("double(x) + 2\n")
        seen = screen.wait_for("42", after=seen)
        seen = screen.wait_for(">>> ", after=seen)
        screen.press("\x03")
        seen = screen.wait_for("Ctrl-D", after=seen)
        screen.press("\x04")
        assert screen.wait() == 0


@pytest.mark.parametrize(
    ("language", "text", "is_it"),
    [
        ("python", "x = 1", True),
        ("python", "if x:", False),
        ("python", "if x:\n    y", False),
        ("python", "if x:\n    y\n", True),
        ("python", "async with a as b:", False),
        ("python", "!ls", True),
        ("python", ")", True),
        ("javascript", "function f() {", False),
        ("javascript", "function f() {\n}", True),
        ("go", "if x {\n", True),
        ("bash", "echo a \\", False),
    ],
)
def test_lines_are_whole_or_go_on(language: str, text: str, is_it: bool) -> None:
    assert is_whole(language, text.split("\n")) is is_it
