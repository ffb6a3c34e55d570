# SPDX-License-Identifier: Apache-2.0
"""The compact client: code runs, and what it left behind is there for the next."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from opensandbox import SandboxClient
from opensandbox.compact import CompactSandbox
from opensandbox.exceptions import InvalidArgumentException
from tests.harness.lifecycle import StandIn


@pytest.fixture
def sandbox(standin: StandIn) -> Iterator[CompactSandbox]:
    """Hold a sandbox of the compact client."""
    client = SandboxClient(base_url=f"http://{standin.domain}")
    with client.create_sandbox(image="image", timeout=300, env={"A": "b"}) as sandbox:
        yield sandbox


def test_what_is_asked_for_reaches_the_server(standin: StandIn) -> None:
    client = SandboxClient(base_url=f"http://{standin.domain}", runtime="crun")
    sandbox = client.create_sandbox("image", timeout=120, egress_enabled=False, env={"A": "b"})
    request = standin.asked("POST", "/sandboxes")[0].json
    assert request["timeout"] == 120
    assert request["env"] == {"A": "b"}
    assert request["extensions"] == {"network": "none", "runtime": "crun"}
    assert sandbox.id in standin.sandboxes
    sandbox.destroy()
    assert standin.sandboxes == {}


def test_python_keeps_its_names_from_call_to_call(sandbox: CompactSandbox) -> None:
    assert sandbox.execute("import math\nx = 20").stdout == ""
    result = sandbox.execute("x += 1\nprint('now', x)\nmath.sqrt(x + 4)")
    assert result.stdout == "now 21\n5.0\n"
    assert (result.stderr, result.exit_code) == ("", 0)


def test_an_exception_is_told_and_the_interpreter_lives_on(sandbox: CompactSandbox) -> None:
    sandbox.execute("x = 1")
    failed = sandbox.execute("import sys\nprint('half')\n1 / 0")
    assert failed.stdout == "half\n"
    assert "ZeroDivisionError" in failed.stderr
    assert failed.exit_code == 1
    assert sandbox.execute("raise SystemExit(7)").exit_code == 7
    assert "SyntaxError" in sandbox.execute("1 +").stderr
    assert "driver.py" not in failed.stderr
    assert sandbox.execute("x").stdout == "1\n"


def test_an_interpreter_that_dies_is_told_and_replaced(sandbox: CompactSandbox) -> None:
    sandbox.execute("x = 1")
    died = sandbox.execute("import os; os._exit(9)")
    assert died.exit_code == 1
    assert "the interpreter has ended" in died.stderr
    assert sandbox.execute("'x' in globals()").stdout == "False\n"


def test_bash_keeps_its_directory_and_variables(sandbox: CompactSandbox) -> None:
    sandbox.execute("cd /usr; name=value", language="bash")
    result = sandbox.execute("pwd; echo $name; exit 3", language="bash")
    assert (result.stdout, result.exit_code) == ("/usr\nvalue\n", 3)


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import sys\nfor n in range(3): print(n)\nprint('oops', file=sys.stderr)"),
        ("bash", "for n in 0 1 2; do echo $n; done"),
    ],
)
def test_output_can_be_had_piece_by_piece(
    sandbox: CompactSandbox, language: str, code: str
) -> None:
    chunks = list(sandbox.execute(code, language=language, stream=True))
    assert [chunk.stdout for chunk in chunks if chunk.stdout] == ["0\n", "1\n", "2\n"]
    assert [chunk.stderr for chunk in chunks if chunk.stderr] == (
        ["oops\n"] if language == "python" else []
    )


@pytest.mark.parametrize(
    ("language", "endless", "after"),
    [
        ("python", "y = 5\nwhile True: print('x' * 1000)", "y"),
        ("bash", "while :; do echo xxxxxxxx; done", "echo 5"),
    ],
)
def test_to_stop_reading_ends_the_code_and_not_the_state(
    sandbox: CompactSandbox, language: str, endless: str, after: str
) -> None:
    for number, chunk in enumerate(sandbox.execute(endless, language=language, stream=True)):
        assert chunk.stdout.startswith("x")
        if number == 100:
            break
    assert sandbox.execute(after, language=language).stdout == "5\n"


def test_files_go_both_ways(sandbox: CompactSandbox, tmp_path: Path, workdir: str) -> None:
    (tmp_path / "here").write_text("héllo")
    sandbox.upload_file(tmp_path / "here", f"{workdir}/there")
    assert sandbox.read_file(f"{workdir}/there") == "héllo"
    sandbox.download_file(f"{workdir}/there", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "héllo"


def test_an_unknown_language_is_refused(sandbox: CompactSandbox) -> None:
    with pytest.raises(InvalidArgumentException, match="bash, python"):
        sandbox.execute("1", language="cobol")
